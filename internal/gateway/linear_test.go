package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestWorkIsLinear sends every array, object and text that a request can have,
// at a size and at eight times that. The work up to the start of a turn, in time
// and in memory, may grow by as much, and not by its square, which is 64 times.
func TestWorkIsLinear(t *testing.T) {
	small, large := newCosts(t, smallBody), newCosts(t, largeBody)
	for route, bodies := range hostileBodies() {
		for _, what := range slices.Sorted(maps.Keys(bodies)) {
			t.Run(route[1:]+"/"+what, func(t *testing.T) {
				once, eightfold := grown(bodies[what], smallBody), grown(bodies[what], largeBody)
				if most, capped := fewAtMost[what]; capped {
					once, eightfold = expand(bodies[what], most/8), expand(bodies[what], most)
				}
				checkGrowth(t, func() measured { return small.of(route, once) }, func() measured { return large.of(route, eightfold) })
			})
		}
	}
}

const (
	// The sizes of the bodies that are compared.
	smallBody = 32 << 10
	largeBody = 8 * smallBody
	// mostGrowth is how much more a byte of the large body may cost than one of the
	// small body; with quadratic work it is 8 times as much.
	mostGrowth = 2.5
	// What it costs to read a body, which is copied while it grows, for each byte.
	readTime  = 2 * time.Nanosecond
	readBytes = 4.0
	// attempts is how often a time is taken that seems to be too long. The shortest
	// one counts: what disturbs only ever adds.
	attempts = 10
)

// checkGrowth compares the costs of a small and of a large body.
func checkGrowth(t *testing.T, small, large func() measured) {
	once, eightfold := small(), large()
	for range attempts {
		if !eightfold.slower(once) {
			break
		}
		once, eightfold = once.least(small()), eightfold.least(large())
	}
	if eightfold.slower(once) {
		t.Errorf("%d bytes take %s, and %d bytes %s", once.size, once.cpu, eightfold.size, eightfold.cpu)
	}
	if eightfold.larger(once) {
		t.Errorf("%d bytes allocate %d bytes, and %d bytes %d", once.size, once.bytes, eightfold.size, eightfold.bytes)
	}
}

// slower reports whether a byte takes much more time than it does in the other.
func (m measured) slower(other measured) bool {
	perByte := func(m measured) float64 { return float64(m.cpu) / float64(m.size) }
	return perByte(m) > mostGrowth*(perByte(other)+float64(readTime))
}

// larger reports whether a byte takes much more memory than it does in the other.
func (m measured) larger(other measured) bool {
	perByte := func(m measured) float64 { return float64(m.bytes) / float64(m.size) }
	return perByte(m) > mostGrowth*(perByte(other)+readBytes)
}

func (m measured) least(other measured) measured {
	m.cpu, m.bytes = min(m.cpu, other.cpu), min(m.bytes, other.bytes)
	return m
}

// BenchmarkHostileBodies tells what each byte costs of bodies of 31 MiB, just
// below the default limit:
//
//	go test -run '^$' -bench HostileBodies -benchtime 1x ./internal/gateway
func BenchmarkHostileBodies(b *testing.B) {
	const size = 31 << 20
	c := newCosts(b, size)
	for route, bodies := range hostileBodies() {
		for _, what := range slices.Sorted(maps.Keys(bodies)) {
			b.Run(route[1:]+"/"+strings.ReplaceAll(what, " ", "_"), func(b *testing.B) {
				body := grown(bodies[what], size)
				var cpu time.Duration
				var allocated uint64
				for b.Loop() {
					m := c.of(route, body)
					cpu, allocated = cpu+m.cpu, allocated+m.bytes
				}
				total := float64(b.N) * float64(len(body))
				b.ReportMetric(float64(len(body)), "bytes")
				b.ReportMetric(float64(cpu)/total, "cpu-ns/byte")
				b.ReportMetric(float64(allocated)/total, "allocated/byte")
			})
		}
	}
}

// storedLinks is how many responses are kept for the bodies: each follows the one before.
const storedLinks = 64

// storedSuffix is the suffix of the nth of them.
func storedSuffix(n int) string { return fmt.Sprintf("%026d", n) }

// storeFor keeps the responses. The first has as many items as there may be
// references in a body of a size, and behind them the item "last".
func storeFor(t testing.TB, size int) *objects.Store {
	items := size / 64
	store := memoryStore(1<<40, time.Hour)
	for link := range storedLinks {
		e := &objects.Entry{Response: json.RawMessage("{}")}
		if link > 0 {
			e.Previous = responseid.Prefix + storedSuffix(link-1)
			items = 1
		}
		for i := range items {
			e.Input = append(e.Input, storedItem(link, fmt.Sprint("i", i)))
		}
		e.Input = append(e.Input, storedItem(link, "last"))
		must.OK(t, store.Put(t.Context(), responseid.Prefix+storedSuffix(link), e))
	}
	return store
}

func storedItem(link int, place string) json.RawMessage {
	return fmt.Appendf(nil, `{"id":"msg_%s_%s","type":"message","role":"user","content":"q"}`, storedSuffix(link), place)
}

type measured struct {
	size  int           // of its body
	cpu   time.Duration // of the goroutine that serves it
	bytes uint64        // that were allocated
}

// costs measures requests up to the start of their turns.
type costs struct {
	t     testing.TB
	g     *Gateway
	lease conversation.Lease
}

func newCosts(t testing.TB, size int) *costs {
	u := newStubUpstream(t)
	g := newGateway(u, Options{MaxConcurrent: 8, MaxQueue: 8, QueueWait: patience, Responses: storeFor(t, size), Images: onePixel{}})
	g.opts.MaxBody = int64(4 * size)
	g.bodies = reqbody.NewPool(1<<30, g.opts.MaxBody, claims.NewCrowd(nil))
	g.opts.User = func(*http.Request) string { return "" }
	lease, err := u.Lease()
	must.OK(t, err)
	t.Cleanup(lease.Release)
	return &costs{t, g, lease}
}

// onePixel is the image at every URL.
type onePixel struct{}

func (onePixel) Fetch(_ context.Context, urls []string, _ func(int64) bool) (map[string]string, error) {
	images := make(map[string]string, len(urls))
	for _, url := range urls {
		images[url] = aPixel
	}
	return images, nil
}

func (c *costs) of(route, body string) measured {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	c.serve(route, body)
	m := measured{size: len(body), cpu: cpuTime() - start}
	runtime.ReadMemStats(&after)
	m.bytes = after.TotalAlloc - before.TotalAlloc
	return m
}

// serve serves a request until its turn has started, or it was refused.
func (c *costs) serve(route, body string) {
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	x := c.g.newExchange(w, posting(route, body).WithContext(ctx))
	defer x.close()
	x.lease = c.lease
	req, apiErr := c.g.acceptAt(route, x)
	if apiErr != nil {
		c.g.refuse(w, x.r, apiErr)
		return
	}
	req.plan.Choices = 1 // each is the same work
	if _, err := c.g.start(ctx, x, req); err != nil {
		c.g.refuse(w, x.r, req.apiError(err))
	}
}

// grown returns a body of about this size.
func grown(body string, size int) string {
	const sample = 1000
	return expand(body, max(1, size*sample/len(expand(body, sample))))
}

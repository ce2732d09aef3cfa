package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func limitedGateway(t *testing.T, u conversation.Upstream, key *quota.Key) *Gateway {
	t.Helper()
	return newGateway(u, Options{
		MaxConcurrent: 8, MaxQueue: 100, QueueWait: patience,
		Key:    func(*http.Request) (*quota.Key, *apierror.Error) { return key, nil },
		Limits: quota.NewLimits(quota.NewLedger(time.Now), 0, false),
	})
}

func hourly(t *testing.T, unit quota.Unit, n int64) quota.Limit {
	t.Helper()
	w, err := quota.ParseWindow("1h")
	must.OK(t, err)
	return quota.Limit{Unit: unit, Max: n, Window: w}
}

// TestKeyLimitsHold sends requests of every kind at once, of which some clients leave. The
// use never exceeds a limit, and nothing is held in the end.
func TestKeyLimitsHold(t *testing.T) {
	const requests, limit, places = 80, 60_000, 5
	key := &quota.Key{ID: "k", Account: "k", MaxConcurrent: places, Limits: []quota.Limit{hourly(t, quota.Requests, requests), hourly(t, quota.Tokens, limit)}}
	g := limitedGateway(t, talkative(t, 6), key)
	var all sync.WaitGroup
	for seed := range uint64(8) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 4))
			for range 12 {
				anyRequest(t, g, r)
			}
		})
	}
	all.Wait()
	states := g.opts.Limits.States(t.Context(), []*quota.Key{key})[0]
	if states[0].Used > requests || states[1].Used > limit || states[1].Used == 0 {
		t.Errorf("%+v", states)
	}
	request, err := g.opts.Limits.Begin(&quota.Key{Account: "k", MaxConcurrent: places})
	must.OK(t, err)
	grants, err := request.Acquire(places)
	if err != nil {
		t.Error("turns that have ended hold places:", err)
	}
	for _, grant := range grants {
		grant.Close(0)
	}
}

func anyRequest(t *testing.T, g *Gateway, r *rand.Rand) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if r.IntN(4) == 0 {
		time.AfterFunc(time.Duration(r.IntN(20))*time.Millisecond, leave)
	}
	stream := r.IntN(2) == 0
	path, body := chatPath, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":%t,"n":%d}`, stream, 1+r.IntN(2))
	switch r.IntN(4) {
	case 0:
		path, body = responsesPath, fmt.Sprintf(`{"model":"m","store":false,"input":"x","stream":%t}`, stream)
	case 1:
		path, body = "/v1/responses/input_tokens", `{"model":"m","input":"x"}`
	}
	defer func() { _ = recover() }() // an answer that was cut
	answerTo(g, posting(path, body).WithContext(ctx))
}

// TestKeyLimitsAtOnce checks that the place and the tokens of a turn are free before its
// client learns of the end: the next request of a client with one place always succeeds.
func TestKeyLimitsAtOnce(t *testing.T) {
	key := &quota.Key{ID: "k", Account: "k", MaxConcurrent: 1, Limits: []quota.Limit{hourly(t, quota.Tokens, 400_000)}}
	g := limitedGateway(t, talkative(t, 2), key)
	server := httptest.NewServer(g)
	defer server.Close()
	for i := range 120 {
		path, body := chatPath, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":%t}`, i%2 == 0)
		switch i % 5 {
		case 3:
			path, body = responsesPath, fmt.Sprintf(`{"model":"m","store":false,"input":"x","stream":%t}`, i%2 == 0)
		case 4:
			body = `{"model":"m","messages":[{"role":"user","content":"x"}],"n":0}`
		}
		response, err := http.Post(server.URL+path, "application/json", strings.NewReader(body))
		must.OK(t, err)
		var last strings.Builder
		buffer := make([]byte, 4096)
		for n := 0; err == nil; {
			n, err = response.Body.Read(buffer)
			last.Write(buffer[:n])
			if text := last.String(); strings.Contains(text, "[DONE]") || strings.Contains(text, "event: response.completed") {
				break // as a client does, before the connection has ended
			}
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			t.Fatalf("request %d: %s", i, last.String())
		}
	}
}

// TestSpentPlan: when neither the failure nor an earlier answer tells when the
// plan resets, Codex is asked, and a client is told.
func TestSpentPlan(t *testing.T) {
	resets := time.Now().Add(2 * time.Hour)
	for name, c := range map[string]struct {
		limits string
		faults fakecodex.Faults
		told   bool
	}{
		"told":           {limits: fmt.Sprintf(`{"primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":%d},"secondary":null}`, resets.Unix()), told: true},
		"not known":      {},
		"never answered": {faults: fakecodex.Faults{Mute: []string{"account/rateLimits/read"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(newFakeUpstream(t, fakecodex.Options{RateLimits: c.limits, Faults: c.faults}), Options{MaxConcurrent: 4})
			for _, more := range []string{"", `,"stream":true`, `,"n":2`} {
				body := `{"model":"gpt-5","messages":[{"role":"user","content":"fail:insufficient_quota"}]` + more + `}`
				w := post(g, chatPath, body)
				if w.Code != http.StatusTooManyRequests && !strings.Contains(w.Body.String(), "insufficient_quota") {
					t.Fatalf("%s: %d %s", more, w.Code, w.Body)
				}
				if w.Code == http.StatusOK {
					continue // asking has taken longer than the header of a stream may wait
				}
				told := strings.Contains(w.Body.String(), "(This limit resets in 1h59m") || strings.Contains(w.Body.String(), "(This limit resets in 2h")
				if told != c.told || w.Header().Get("X-Should-Retry") != "false" || w.Header().Get("Retry-After") != "" {
					t.Errorf("%s: %v %s", more, w.Header(), w.Body)
				}
			}
		})
	}
}

// spentOncePicked is an upstream with two members. Each that is picked is spent a moment later.
type spentOncePicked struct{ *fakeUpstream }

func (u spentOncePicked) Lease() (conversation.Lease, error) {
	u.leases.Add(1)
	return spentLease{&fakeLease{u: u.fakeUpstream}}, nil
}

type spentLease struct{ *fakeLease }

func (l spentLease) Pick(model string, _ ...*appserver.Process) (conversation.Member, func()) {
	picked, done := l.fakeLease.Pick(model)
	picked.Login.Fail("", &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}, 0)
	return picked, done
}

func (spentLease) Len() int { return 2 }

// TestSpentOncePicked checks that a request is not refused because the login of the member that
// was picked for it has begun to rest meanwhile: the other one may be fine.
func TestSpentOncePicked(t *testing.T) {
	g := newGateway(spentOncePicked{newFakeUpstream(t, fakecodex.Options{Transcripts: transcripts(t), Default: "text"})}, Options{MaxConcurrent: 1})
	answer := post(g, chatPath, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if answer.Code != http.StatusOK {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

// TestExceeded: a client is to wait for a limit of a key, but not for long, and not for what never fits.
func TestExceeded(t *testing.T) {
	for name, c := range map[string]struct {
		resets  time.Duration // 0: never
		retries bool
	}{"soon": {30 * time.Second, true}, "late": {time.Hour, false}, "never": {0, false}} {
		e := &quota.ExceededError{Limit: quota.Limit{Unit: quota.Tokens, Max: 10}, Wanted: 20}
		if c.resets > 0 {
			e.Resets = time.Now().Add(c.resets)
		}
		got := exceeded(e)
		if wait := got.RetryAfter; wait > c.resets || wait < c.resets-10*time.Second || (got.ShouldRetry == nil) != c.retries {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

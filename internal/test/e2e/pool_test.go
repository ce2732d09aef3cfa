package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// poolReadiness is the body of /readyz.
type poolReadiness struct {
	Status     string `json:"status"`
	AppServer  string `json:"app_server"`
	Login      string `json:"login"`
	Reason     string `json:"reason"`
	AppServers []struct {
		AppServer string `json:"app_server"`
		Reason    string `json:"reason"`
	} `json:"app_servers"`
}

func (s *site) readiness() (status int, body poolReadiness) {
	s.t.Helper()
	status, text := s.get("/readyz")
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		s.t.Fatalf("%v in %s", err, text)
	}
	return status, body
}

// waitMembers waits until n app-servers are ready.
func (s *site) waitMembers(n int) {
	s.t.Helper()
	waitFor(s.t, fmt.Sprint(n, " app-servers to be ready"), func() bool {
		_, body := s.readiness()
		ready := 0
		for _, m := range body.AppServers {
			if m.AppServer == "ready" && m.Reason == "" {
				ready++
			}
		}
		return ready == n
	})
}

// pool returns an app_server block with several processes.
func (s *site) pool(more string) string {
	return strings.Replace(s.appServer(), "{\n", "{\n"+more+"\n", 1)
}

// appServers returns the native processes of the app-servers.
func appServers() []int {
	var pids []int
	for _, child := range children() {
		pid, called, _ := strings.Cut(child, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.HasPrefix(called, "codex") {
			pids = append(pids, n)
		}
	}
	return pids
}

func killOne(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// TestPool checks that turns are spread over the processes, that killing one ends only
// its turns, that the next turns go to the other one, and that it is restarted.
func TestPool(t *testing.T) {
	s := newPoolSite(t, "processes 2", 2)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 4)
	ends := make(chan string, 4)
	for range 4 {
		wg.Go(func() {
			stream := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody("chunk=4; delay=50ms; say:Half"+strings.Repeat(".", 240), map[string]any{"stream": true})), nil)
			text := readUntil(t, stream.Body, "Half")
			begun <- struct{}{}
			ends <- text + s.read(stream)
		})
	}
	for range 4 {
		<-begun
	}
	before := appServers()
	if len(before) != 2 {
		t.Fatalf("%d processes", len(before))
	}
	killOne(t, before[0])
	// The next turns do not fail, even before the death is noticed.
	for range 6 {
		if response, text := s.post(chatBody("say:on the other", nil), nil); response.StatusCode != 200 {
			t.Errorf("a turn after the death: %s %s", response.Status, text)
		}
	}
	wg.Wait()
	whole, cut := 0, 0
	for range 4 {
		switch text := <-ends; {
		case strings.Contains(text, `"finish_reason":"stop"`):
			whole++
		case strings.Contains(text, "codex_exited") && strings.HasSuffix(text, "data: [DONE]\n\n"):
			cut++
		default:
			t.Errorf("a stream ended with %q", text)
		}
	}
	if whole != 2 || cut != 2 {
		t.Errorf("%d streams went on and %d were cut, want 2 and 2", whole, cut)
	}
	s.waitMembers(2)
	if after := appServers(); len(after) != 2 || !slices.Contains(after, before[1]) || slices.Contains(after, before[0]) {
		t.Errorf("processes %v became %v", before, after)
	}
}

// newPoolSite returns a site with a pool of which this number are ready.
func newPoolSite(t *testing.T, more string, members int) *site {
	t.Helper()
	s := newSite(t, "")
	s.load(s.caddyfile(s.pool(more)))
	s.waitMembers(members)
	// The process of the first configuration is not in the pool.
	waitFor(t, "the processes of the pool alone", func() bool { return len(appServers()) == members })
	return s
}

// TestPoolLosesAll checks the reasons in /readyz when all are lost, and the recovery.
func TestPoolLosesAll(t *testing.T) {
	s := newPoolSite(t, "processes 2", 2)
	for _, pid := range appServers() {
		killOne(t, pid)
	}
	waitFor(t, "readiness to be lost", func() bool {
		status, body := s.readiness()
		return status == http.StatusServiceUnavailable && body.Status == "unavailable" && len(body.AppServers) == 2
	})
	s.waitMembers(2)
	if response, text := s.post(chatBody("say:ok", nil), nil); response.StatusCode != 200 {
		t.Errorf("%s %s", response.Status, text)
	}
}

// TestTwoAppServers checks that one app-server serves if the other cannot start.
func TestTwoAppServers(t *testing.T) {
	s := newSite(t, "")
	s.load(s.caddyfile("app_server /no/such/codex\n" + s.appServer()))
	waitFor(t, "one to be ready and the other to say why not", func() bool {
		status, body := s.readiness()
		return status == http.StatusOK && body.AppServer == "ready" && len(body.AppServers) == 2 &&
			body.AppServers[0].AppServer == "backoff" && strings.Contains(body.AppServers[0].Reason, "cannot be started") &&
			body.AppServers[1].AppServer == "ready"
	})
	for range 4 {
		if response, text := s.post(chatBody("say:ok", nil), nil); response.StatusCode != 200 {
			t.Errorf("%s %s", response.Status, text)
		}
		if status, text := s.get("/v1/models"); status != 200 {
			t.Errorf("models: %d %s", status, text)
		}
	}
}

// TestPoolReload checks that streams continue while the pool grows, shrinks and is
// replaced, and that unused processes end before the streams.
func TestPoolReload(t *testing.T) {
	s := newPoolSite(t, "processes 2", 2)
	ctx, leave := contextFor(t)
	defer leave()
	s.beginHanging(ctx)
	first := appServers()
	s.load(s.caddyfile(s.pool("processes 3")))
	s.waitMembers(3)
	grown := appServers()
	if len(grown) != 3 || !slices.Contains(grown, first[0]) || !slices.Contains(grown, first[1]) {
		t.Errorf("processes %v became %v", first, grown)
	}
	s.load(s.caddyfile(s.pool("processes 2\nenv CHANGED yes")))
	s.waitMembers(2)
	// Of the old processes only that of the stream is left.
	waitFor(t, "the unused ones to end", func() bool { return len(appServers()) == 3 })
	if s.model.Stats().Open != 1 {
		t.Error("the stream was cut")
	}
	leave()
	waitFor(t, "the last old one to end", func() bool { return len(appServers()) == 2 })
}

// TestQueueIsFair checks that a user with one request does not wait for all requests of
// another, and that refused requests have a Retry-After.
func TestQueueIsFair(t *testing.T) {
	s := newSite(t, "api_key k-greedy greedy\napi_key k-modest modest\nmax_concurrent 1\nmax_queue 6 1m")
	ctx, release := contextFor(t)
	defer release()
	var wg sync.WaitGroup
	wg.Go(func() { s.postUntil(ctx, chatBody("hang", nil), bearer("k-greedy")) })
	s.waitOpen(1)
	answers := make(chan answered, 10)
	ask := func(key string) {
		wg.Go(func() {
			response, text := s.post(chatBody("say:"+key, nil), bearer(key))
			answers <- answered{key, response, text}
		})
	}
	full := func(want string) {
		t.Helper()
		a := <-answers
		if a.response.StatusCode != http.StatusTooManyRequests || a.response.Header.Get("Retry-After") == "" || !strings.Contains(a.text, `"code":"codex_queue_full"`) || a.key != want {
			t.Errorf("%s: %s %v %s", a.key, a.response.Status, a.response.Header, a.text)
		}
	}
	for range 7 {
		ask("k-greedy")
	}
	full("k-greedy") // 6 wait
	ask("k-modest")
	full("k-greedy") // the newest is dropped
	release()
	for place := 1; place <= 6; place++ {
		a := <-answers
		if a.response.StatusCode != 200 {
			t.Errorf("%s: %s %s", a.key, a.response.Status, a.text)
		}
		if a.key == "k-modest" && place > 2 {
			t.Errorf("the one request of a user came %dth", place)
		}
	}
	wg.Wait()
}

type answered struct {
	key      string
	response *http.Response
	text     string
}

// TestQueueTimeout checks the error after waiting in the queue.
func TestQueueTimeout(t *testing.T) {
	s := newSite(t, "max_concurrent 1\nmax_queue 1 200ms")
	ctx, release := contextFor(t)
	var wg sync.WaitGroup
	wg.Go(func() { s.postUntil(ctx, chatBody("hang", nil), nil) })
	s.waitOpen(1)
	start := time.Now()
	for _, stream := range []bool{false, true} {
		response, text := s.post(chatBody("say:never", map[string]any{"stream": stream}), nil)
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "5" || !strings.Contains(text, `"code":"codex_queue_timeout"`) {
			t.Errorf("%s %v %s", response.Status, response.Header, text)
		}
	}
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("two waits took %s", took)
	}
	release()
	wg.Wait()
}

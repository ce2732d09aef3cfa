package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// drainTimeout is the drain_timeout of these tests.
const drainTimeout = 6 * time.Second

// wait waits until the process and its children have exited.
func (r *running) wait(pids []int) {
	r.t.Helper()
	if err := r.cmd.Wait(); err != nil {
		r.t.Error("Caddy's exit:", err)
	}
	if !allGone(pids)() {
		r.t.Error("codex outlives Caddy")
	}
}

// isShutdown checks the answer of a server that is shutting down.
func isShutdown(t *testing.T, what string, response *http.Response, text string) {
	t.Helper()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !strings.Contains(text, `"code":"server_shutting_down"`) {
		t.Errorf("%s: %s %v %q", what, response.Status, response.Header, text)
	}
}

// TestExitDrains checks that turns continue for drain_timeout when Caddy exits. Turns
// that end in that time are complete, others are interrupted with a proper end, and
// requests without a turn are refused.
func TestExitDrains(t *testing.T) {
	r := runWith(t, fmt.Sprintf("max_concurrent 3\ndrain_timeout %s", drainTimeout))
	ctx, leave := contextFor(t)
	defer leave()
	long := r.open(ctx, "say:Half of it; hang")
	defer long.Body.Close()
	short := r.open(ctx, "chunk=1; delay=50ms; say:0123456789012345678901234567890123456789")
	defer short.Body.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		response, text := r.post(chatBody("hang", nil), bearer(secretKey))
		isShutdown(t, "a whole answer", response, text)
	})
	r.waitOpen(3)
	wg.Go(func() {
		response, text := r.post(chatBody("say:never", nil), bearer(secretKey))
		isShutdown(t, "one that waits", response, text)
		if r.model.Stats().Open == 0 {
			t.Error("one that waits is told only when the turns are over")
		}
	})
	slow := slowBody(t, r)
	defer slow.Close()
	pids := codexes(r.cmd.Process.Pid)
	start := time.Now()
	r.signal(syscall.SIGTERM, "SIGTERM")
	if text := r.read(short); !strings.HasSuffix(streamedContent(t, text), "9") || !strings.Contains(text, `"finish_reason":"stop"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that ends in time: %q", text)
	}
	if text := r.read(long); !strings.Contains(text, `"code":"server_shutting_down"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that does not: %q", text)
	}
	took := time.Since(start)
	if response, err := http.ReadResponse(bufio.NewReader(slow), nil); err != nil {
		t.Error("one that still sends its request:", err)
	} else {
		isShutdown(t, "one that still sends its request", response, r.read(response))
	}
	wg.Wait()
	r.wait(pids)
	if took < drainTimeout || took > drainTimeout+deadline/2 || time.Since(start) > took+deadline/2 {
		t.Errorf("the stream ended after %s, Caddy after %s", took, time.Since(start))
	}
}

// slowBody starts a request with an incomplete body.
func slowBody(t *testing.T, r *running) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: " + r.addr + "\r\nAuthorization: Bearer " + secretKey + "\r\nContent-Length: 500\r\n" +
		"Expect: 100-continue\r\n\r\n"
	if _, err := fmt.Fprint(conn, head); err != nil {
		t.Fatal(err)
	}
	// The answer to Expect comes when the handler reads.
	answer := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := conn.Read(answer); err != nil || !strings.Contains(string(answer), "100 Continue") {
		t.Fatalf("%q, %v", answer, err)
	}
	return conn
}

// TestExitAfterReload checks that a stream of an old configuration does not delay the
// exit, even if the new one does not have this module.
func TestExitAfterReload(t *testing.T) {
	r := runWith(t, "drain_timeout 1s")
	ctx, leave := contextFor(t)
	defer leave()
	stream := r.hanging(ctx)
	defer stream.Body.Close()
	pids := codexes(r.cmd.Process.Pid)
	r.write(r.wrap("respond gone"))
	r.signal(syscall.SIGUSR1, "SIGUSR1")
	waitFor(t, "the new configuration", func() bool {
		http.DefaultClient.CloseIdleConnections()
		_, text := r.get("/")
		return text == "gone"
	})
	if !alive(pids[0]) || r.model.Stats().Open != 1 {
		t.Error("the reload has cut the stream")
	}
	r.signal(syscall.SIGTERM, "SIGTERM")
	if text := r.read(stream); !strings.Contains(text, `"code":"server_shutting_down"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the stream: %q", text)
	}
	r.wait(pids)
}

// TestExitByGracePeriod checks that codex exits with Caddy when Caddy's own
// grace_period ends first.
func TestExitByGracePeriod(t *testing.T) {
	r := runWith(t, "drain_timeout 1h")
	config := r.caddyfile("drain_timeout 1h\napi_key " + secretKey)
	r.write(strings.Replace(config, "auto_https off", "auto_https off\ngrace_period 1s", 1))
	r.signal(syscall.SIGUSR1, "successfully reloaded")
	ctx, leave := contextFor(t)
	defer leave()
	stream := r.hanging(ctx)
	defer stream.Body.Close()
	pids := codexes(r.cmd.Process.Pid)
	if len(pids) == 0 {
		t.Fatal("no codex is running")
	}
	r.signal(syscall.SIGTERM, "SIGTERM")
	_ = r.cmd.Wait() // may fail because of the timeout
	if !allGone(pids)() {
		t.Error("codex outlives Caddy")
	}
}

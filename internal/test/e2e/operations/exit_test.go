package operations

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// drainTimeout is the drain_timeout of these tests.
const drainTimeout = 6 * time.Second

// wait waits until the process and its children have exited.
func wait(r *e2e.Running, pids []int) {
	r.T.Helper()
	if err := r.Wait(); err != nil {
		r.T.Error("Caddy's exit:", err)
	}
	if !e2e.AllGone(pids)() {
		r.T.Error("codex outlives Caddy")
	}
}

// TestExitDrains checks that turns continue for drain_timeout when Caddy exits. Turns
// that end in that time are complete, others are interrupted with a proper end.
func TestExitDrains(t *testing.T) {
	r := runWith(t, fmt.Sprintf("drain_timeout %s", drainTimeout))
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	long := r.Open(ctx, "say:Half of it; hang")
	defer long.Body.Close()
	short := r.Open(ctx, "chunk=1; delay=50ms; say:0123456789012345678901234567890123456789")
	defer short.Body.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		response, text := r.Post(e2e.ChatBody("hang", nil), e2e.Bearer(e2e.SecretKey))
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !strings.Contains(text, `"code":"server_shutting_down"`) {
			t.Errorf("a whole answer: %s %v %q", response.Status, response.Header, text)
		}
	})
	r.WaitOpen(3)
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	start := time.Now()
	r.Signal(syscall.SIGTERM, "SIGTERM")
	if text := r.Read(short); !strings.HasSuffix(e2e.StreamedContent(t, text), "9") || !strings.Contains(text, `"finish_reason":"stop"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that ends in time: %q", text)
	}
	if text := r.Read(long); !strings.Contains(text, `"code":"server_shutting_down"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that does not: %q", text)
	}
	took := time.Since(start)
	wg.Wait()
	wait(r, pids)
	if took < drainTimeout || took > drainTimeout+e2e.Deadline/2 || time.Since(start) > took+e2e.Deadline/2 {
		t.Errorf("the stream ended after %s, Caddy after %s", took, time.Since(start))
	}
}

// TestExitAfterReload checks that a stream of an old configuration does not delay the
// exit, even if the new one does not have this module.
func TestExitAfterReload(t *testing.T) {
	r := runWith(t, "drain_timeout 1s")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	stream := r.Hanging(ctx)
	defer stream.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	r.Write(r.Wrap("respond gone"))
	r.Signal(syscall.SIGUSR1, "SIGUSR1")
	e2e.WaitFor(t, "the new configuration", func() bool {
		http.DefaultClient.CloseIdleConnections()
		response, err := http.Get(r.URL + "/")
		return err == nil && r.Read(response) == "gone" // a reload may lose connections
	})
	if !e2e.Alive(pids[0]) || r.Model.Stats().Open != 1 {
		t.Error("the reload has cut the stream")
	}
	r.Signal(syscall.SIGTERM, "SIGTERM")
	if text := r.Read(stream); !strings.Contains(text, `"code":"server_shutting_down"`) || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the stream: %q", text)
	}
	wait(r, pids)
}

// TestExitByGracePeriod checks that codex exits with Caddy when Caddy's own
// grace_period ends first.
func TestExitByGracePeriod(t *testing.T) {
	r := runWith(t, "drain_timeout 1h")
	config := r.Caddyfile("drain_timeout 1h\napi_key " + e2e.SecretKey)
	r.Write(strings.Replace(config, "auto_https off", "auto_https off\ngrace_period 1s", 1))
	r.Signal(syscall.SIGUSR1, "successfully reloaded")
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	stream := r.Hanging(ctx)
	defer stream.Body.Close()
	pids := e2e.Codexes(r.Cmd.Process.Pid)
	if len(pids) == 0 {
		t.Fatal("no codex is running")
	}
	r.Signal(syscall.SIGTERM, "SIGTERM")
	_ = r.Wait() // may fail because of the timeout
	if !e2e.AllGone(pids)() {
		t.Error("codex outlives Caddy")
	}
}

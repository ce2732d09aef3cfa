package faults

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

func killOne(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// TestPool: turns are spread over processes, also over one that a reload adds. Killing one ends
// only its turns; the next ones go to the other one, and it is restarted.
func TestPool(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Served("say:the account is known now")
	s.Load(s.Caddyfile(s.Pool("processes 2")))
	s.WaitMembers(2)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 4)
	ends := make(chan string, 4)
	for range 4 {
		wg.Go(func() {
			stream := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.ChatBody("chunk=4; delay=100ms; say:Half"+strings.Repeat(".", 240), map[string]any{"stream": true})), nil)
			text := e2e.ReadUntil(t, stream.Body, "Half")
			begun <- struct{}{}
			ends <- text + s.Read(stream)
		})
	}
	for range 4 {
		e2e.Receive(t, "a stream to begin", begun)
	}
	before := e2e.AppServers()
	if len(before) != 2 {
		t.Fatalf("%d processes", len(before))
	}
	killOne(t, before[0])
	// The next turns do not fail, even before the death is noticed.
	for range 6 {
		s.Served("say:on the other")
	}
	wg.Wait()
	whole, cut := 0, 0
	for range 4 {
		switch text := e2e.Receive(t, "a stream to end", ends); {
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
	s.WaitMembers(2)
	if after := e2e.AppServers(); len(after) != 2 || !slices.Contains(after, before[1]) || slices.Contains(after, before[0]) {
		t.Errorf("processes %v became %v", before, after)
	}
}

// TestPoolLosesAll checks the reasons in /readyz when all are lost, and the recovery.
func TestPoolLosesAll(t *testing.T) {
	s := e2e.NewPoolSite(t, "processes 2", 2)
	for _, pid := range e2e.AppServers() {
		killOne(t, pid)
	}
	e2e.WaitFor(t, "readiness to be lost", func() bool {
		status, body := s.Readiness()
		return status == http.StatusServiceUnavailable && body.Status == "unavailable" && len(body.AppServers) == 2
	})
	s.WaitMembers(2)
	s.Served("say:ok")
}

package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signalAll sends a signal to all native processes of the app-servers.
func signalAll(t *testing.T, signal syscall.Signal) {
	t.Helper()
	pids := appServers()
	if len(pids) == 0 {
		t.Fatal("no app-server is running")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Error(err)
		}
	}
}

// waitUnresponsive waits until /readyz says that the app-server hangs.
func (s *site) waitUnresponsive() {
	s.t.Helper()
	waitFor(s.t, "the app-server to be unresponsive", func() bool {
		status, body := s.readiness()
		return status == http.StatusServiceUnavailable && body.AppServer == "unresponsive"
	})
}

// TestCodexHangs checks that a stream is complete if a stopped codex continues soon.
// Otherwise it has a proper end, codex is killed with its children, and another one
// serves requests.
func TestCodexHangs(t *testing.T) {
	s := newSite(t, "")
	stream := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody("chunk=4; delay=20ms; say:Half"+strings.Repeat(".", 400)+"whole", map[string]any{"stream": true})), nil)
	begun := readUntil(t, stream.Body, "Half")
	signalAll(t, syscall.SIGSTOP)
	s.waitUnresponsive()
	signalAll(t, syscall.SIGCONT)
	text := begun + s.read(stream)
	if streamedContent(t, text) != "Half"+strings.Repeat(".", 400)+"whole" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that went on has %q and ends with %q", streamedContent(t, text), text[max(0, len(text)-1000):])
	}
	s.waitReady()

	stream = s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody("say:Half of it; hang", map[string]any{"stream": true})), nil)
	begun = readUntil(t, stream.Body, "Half")
	all := codexes(0)
	signalAll(t, syscall.SIGSTOP)
	stopped := time.Now()
	if text := begun + s.read(stream); !strings.Contains(text, "codex_unresponsive") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that was cut: %q", text)
	}
	waitFor(t, "another codex", func() bool {
		response, text := s.post(chatBody("say:back again", nil), nil)
		return response.StatusCode == 200 && strings.Contains(text, "back again")
	})
	t.Logf("it worked again after %s", time.Since(stopped).Round(time.Millisecond))
	waitFor(t, "all of the old codex to be gone", allGone(all))
}

// TestOneOfAPoolHangs checks that new turns go to the other process.
func TestOneOfAPoolHangs(t *testing.T) {
	s := newPoolSite(t, "processes 2", 2)
	before := appServers()
	if err := syscall.Kill(before[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "one to be unresponsive", func() bool {
		status, body := s.readiness()
		states := ""
		for _, m := range body.AppServers {
			states += m.AppServer
		}
		return status == 200 && strings.Contains(states, "unresponsive")
	})
	for range 6 {
		if response, text := s.post(chatBody("say:on the other", nil), nil); response.StatusCode != 200 {
			t.Errorf("%s %s", response.Status, text)
		}
	}
	s.waitMembers(2)
}

// TestKillsInARow checks that a codex which has completed a turn is restarted at once
// each time it is killed, and that the next request is served.
func TestKillsInARow(t *testing.T) {
	s := newSite(t, "")
	for n := range 5 {
		if response, text := s.post(chatBody("say:ok", nil), nil); response.StatusCode != 200 {
			t.Fatalf("before kill %d: %s %s", n+1, response.Status, text)
		}
		kill(t, "codex")
		killed := time.Now()
		if response, text := s.post(chatBody("say:back", nil), nil); response.StatusCode != 200 {
			t.Errorf("after kill %d: %s %s", n+1, response.Status, text)
		}
		t.Logf("after kill %d an answer came in %s", n+1, time.Since(killed).Round(time.Millisecond))
	}
}

package faults

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// signalAll sends a signal to all native processes of the app-servers.
func signalAll(t *testing.T, signal syscall.Signal) {
	t.Helper()
	pids := e2e.AppServers()
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
func waitUnresponsive(s *e2e.Site) {
	s.T.Helper()
	e2e.WaitFor(s.T, "the app-server to be unresponsive", func() bool {
		status, body := s.Readiness()
		return status == http.StatusServiceUnavailable && body.AppServer == "unresponsive"
	})
}

// TestCodexHangs checks that a stream is complete if a stopped codex continues soon. Otherwise it
// has a proper end, codex is killed with its children, and another one serves requests.
func TestCodexHangs(t *testing.T) {
	s := e2e.NewSite(t, "")
	whole := openStreams(s, 1, "chunk=4; delay=20ms; say:Half"+strings.Repeat(".", 400)+"whole")[0]
	signalAll(t, syscall.SIGSTOP)
	waitUnresponsive(s)
	signalAll(t, syscall.SIGCONT)
	text := rest(s, whole)
	if e2e.StreamedContent(t, text) != "Half"+strings.Repeat(".", 400)+"whole" || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that went on has %q and ends with %q", e2e.StreamedContent(t, text), text[max(0, len(text)-1000):])
	}
	s.WaitReady()

	cut := openStreams(s, 1, "say:Half of it; hang")[0]
	all := e2e.Codexes(0)
	signalAll(t, syscall.SIGSTOP)
	stopped := time.Now()
	if text := rest(s, cut); !strings.Contains(text, "codex_unresponsive") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("a stream that was cut: %q", text)
	}
	e2e.WaitFor(t, "another codex", func() bool {
		response, text := s.Post(e2e.ChatBody("say:back again", nil), nil)
		return response.StatusCode == 200 && strings.Contains(text, "back again")
	})
	t.Logf("it worked again after %s", time.Since(stopped).Round(time.Millisecond))
	e2e.WaitFor(t, "all of the old codex to be gone", e2e.AllGone(all))
}

// TestCodexKilled: turns of a killed codex end with an error that can be retried, and another codex
// serves. A command may be a launcher whose child outlives it; neither is left when one is killed.
func TestCodexKilled(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, name := range []string{"codex", "launcher"} {
		t.Run(name, func(t *testing.T) {
			s := s.At(t)
			if name == "launcher" {
				name = "sh"
				before := e2e.AppServers()
				s.Load(s.Caddyfile(fmt.Sprintf("app_server sh -c `exec 3<&0; %s \"$@\" <&3 & wait` sh app-server {\nhome %s\n}", e2e.CodexBinary, s.Home)))
				s.WaitReady()
				e2e.WaitFor(t, "the launched codex to serve alone", e2e.AllGone(before))
			}
			s.WaitOpen(0) // earlier streams have ended
			var wg sync.WaitGroup
			wg.Go(func() {
				response, text := s.Post(e2e.ChatBody("hang", nil), nil)
				if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "codex_exited") || response.Header.Get("Retry-After") == "" {
					t.Errorf("a whole answer: %s %s", response.Status, text)
				}
			})
			stream := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.ChatBody("say:Half of it; hang", map[string]any{"stream": true})), nil)
			begun := e2e.ReadUntil(t, stream.Body, "Half")
			s.WaitOpen(2)
			all := e2e.Codexes(0)
			e2e.Kill(t, name)
			wg.Wait()
			if text := begun + s.Read(stream); !strings.Contains(text, "codex_exited") || !strings.HasSuffix(text, "data: [DONE]\n\n") {
				t.Errorf("a stream: %q", text)
			}
			e2e.WaitFor(t, "all of the old codex to be gone", e2e.AllGone(all))
			e2e.WaitFor(t, "another codex", func() bool {
				response, text := s.Post(e2e.ChatBody("say:back again", nil), nil)
				return response.StatusCode == 200 && strings.Contains(text, "back again")
			})
		})
	}
}

// TestNativeCodex: if the command is npm's launcher, Caddy starts the native codex without Node.
func TestNativeCodex(t *testing.T) {
	s := e2e.NewSite(t, "")
	s.Served("say:native")
	e2e.WaitFor(t, "the run for the catalogue to end", func() bool { return len(e2e.Children()) == 1 })
	pid := rig.Below(os.Getpid())[0]
	if name := rig.Name(pid); !strings.HasPrefix(name, "codex") {
		t.Errorf("the app-server is a %q", name)
	}
}

package faults

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestCodexKilled checks that the turns of a killed codex end with an error that can be
// retried, and that another codex serves the next requests. A command may be a launcher
// whose child outlives it. Killing either must leave nothing behind.
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

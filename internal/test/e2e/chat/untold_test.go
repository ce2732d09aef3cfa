package chat

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// private matches what clients must not learn of the provider and this machine.
var private = regexp.MustCompile(`https?://|127\.0\.0\.1|localhost:\d|/tmp/|/dev/shm/|/home/`)

// TestProviderUntold checks for each failure that no client gets the URL of the
// provider, and that the log has it.
func TestProviderUntold(t *testing.T) {
	s := e2e.NewSite(t, "")
	log := filepath.Join(t.TempDir(), "caddy.log")
	logged := func(caddyfile string) string {
		return strings.Replace(caddyfile, "admin off", "admin off\nlog {\noutput file "+log+"\n}", 1)
	}
	s.Load(logged(s.Caddyfile("")))
	s.WaitReady()
	for _, prompt := range []string{
		"http:400", "http:401", "http:403", "http:404", "http:429", "http:500", "http:503", "cutoff", "say:Half of it; cutoff",
		"fail:server_error see http://127.0.0.1:9/x", "fail:unheard_of at https://provider.example/y",
	} {
		checkUntold(t, s, prompt)
	}
	provider := s.Provider
	if s.Plan != nil {
		provider = "https://chatgpt.com/"
	}
	if text := e2e.ReadFile(t, log); strings.Count(text, "url: "+provider) < 4 {
		t.Errorf("the log does not tell the provider's URL for each of both APIs, streamed and not: %s", text)
	}

	// The address has no listener, so Codex waits. A new process reads the
	// changed configuration.
	if s.Plan == nil {
		e2e.WriteHome(t, s.Home, "http://"+e2e.FreeAddr(t)+"/v1", codexhome.Options{})
	} else {
		s.Plan.Fail(planbackend.All, planbackend.Down())
	}
	s.Load(s.Caddyfile(strings.Replace(s.AppServer(), "{\n", "{\nenv OTHER yes\n", 1) + "\nidle_timeout 3s"))
	e2e.WaitFor(t, "the app-server", func() bool { // its login fails
		_, body := s.Readiness()
		return body.AppServer == "ready"
	})
	checkUntold(t, s, "hello")
}

// checkUntold sends each kind of request side by side, and checks that the answers are not
// private.
func checkUntold(t *testing.T, s *e2e.Site, prompt string) {
	t.Run(prompt, func(t *testing.T) {
		for _, stream := range []bool{false, true} {
			for path, body := range map[string]e2e.Fields{
				"/v1/chat/completions": {"model": "gpt-5", "stream": stream, "messages": []any{e2e.Fields{"role": "user", "content": prompt}}},
				"/v1/responses":        {"model": "gpt-5", "stream": stream, "input": prompt},
			} {
				t.Run(fmt.Sprintf("%s, stream %t", path, stream), func(t *testing.T) {
					t.Parallel()
					s := s.At(t)
					response := s.Do(http.MethodPost, path, strings.NewReader(e2e.EncodeJSON(body)), nil)
					text := s.Read(response)
					if !strings.Contains(text, `"error":{`) && !strings.Contains(text, `"code":"`) {
						t.Errorf("it did not fail: %s %s", response.Status, text)
					}
					if found := private.FindString(text); found != "" {
						t.Errorf("it tells %q: %s", found, text)
					}
				})
			}
		}
	})
}

// TestMachineUntold checks that clients get only a general reason why an app-server is
// not ready. The program's own words and paths are for the operator.
func TestMachineUntold(t *testing.T) {
	s := e2e.NewSite(t, "")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'token s3cret in /home/me' >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	admin := s.WithAdmin(s.Caddyfile(""))
	for command, says := range map[string]struct{ everybody, operator string }{
		"/no/such/codex app-server":          {"cannot be started", "/no/such/codex"},
		"no-such-codex-on-a-path app-server": {"not installed", "no-such-codex-on-a-path"},
		broken:                               {"has no argument app-server", broken},
		broken + " app-server":               {"the command ends at once", "token s3cret in /home/me"},
	} {
		s.Load(strings.Replace(s.Caddyfile("app_server "+command), "admin off", "admin "+admin.Addr, 1))
		public := ""
		e2e.WaitFor(t, "what to do in /readyz", func() bool {
			status, text := s.Get("/readyz")
			public = text
			return status == http.StatusServiceUnavailable && strings.Contains(text, says.everybody)
		})
		for range 3 { // during a start or between two
			response, text := s.Post(e2e.ChatBody("say:ok", nil), nil)
			if response.StatusCode != http.StatusServiceUnavailable {
				t.Error(command, response.Status, text)
			}
			public += text
		}
		if found := private.FindString(public); found != "" || strings.Contains(public, "s3cret") || strings.Contains(public, "no/such") {
			t.Errorf("%s: everybody reads %q in %s", command, found, public)
		}
		e2e.WaitFor(t, "the reason on the admin API", func() bool {
			return strings.Contains(fmt.Sprint(admin.Status()), says.operator)
		})
	}
	s.Load(s.Caddyfile(""))
	s.WaitReady()
}

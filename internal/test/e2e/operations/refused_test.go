package operations

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestRefusedRequests checks that requests which are refused for each reason are in the usage, in the
// metrics by their code, and one line of the log each, with the request's id.
func TestRefusedRequests(t *testing.T) {
	s := e2e.NewSite(t, "")
	log := filepath.Join(t.TempDir(), "log")
	load := func(queue string) {
		s.Load(strings.Replace(s.WithMetrics("api_key sk-right alice\nusage all\nmax_body 100KiB\nmax_concurrent 1\n"+queue), "admin off", `log default {
			output file `+log+` {
				roll_disabled
			}
		}
		admin off`, 1))
		s.WaitReadyAs(e2e.Bearer("sk-right"))
	}
	load("max_queue 1 10m")
	number, run := 0, rand.Text() // the usage has no end
	ask := func(status int, code, method, path, key, body string) {
		t.Helper()
		metric := fmt.Sprintf("codex_request_errors_total{code=%q}", code)
		before := s.Samples()[metric]
		number++
		id := fmt.Sprint(run, "-", number)
		header := e2e.Bearer(key)
		header.Set("X-Request-Id", id)
		response := s.Do(method, path, strings.NewReader(body), header)
		text := s.Read(response)
		if response.StatusCode != status || !strings.Contains(text, code) {
			t.Errorf("%s %s: %s %s, want %d %s", method, path, response.Status, text, status, code)
		}
		if after := s.Samples()[metric]; after != before+1 {
			t.Errorf("%s: %v → %v", metric, before, after)
		}
		if raw, _ := usageAs(s, e2e.Bearer("sk-right")); strings.Count(raw, fmt.Sprintf(`"request_id":%q`, id)) != 1 || !strings.Contains(raw, fmt.Sprintf(`"status":%d,"code":%q`, status, code)) {
			t.Errorf("%d %s is not listed once: %s", status, code, raw)
		}
		e2e.WaitFor(t, "the line of the log", func() bool {
			return strings.Contains(e2e.ReadFile(t, log), fmt.Sprintf(`"request_id":%q`, id))
		})
		if n := strings.Count(e2e.ReadFile(t, log), fmt.Sprintf(`"request_id":%q`, id)); n != 1 {
			t.Errorf("%d lines about %d %s", n, status, code)
		}
	}
	const chat = "/v1/chat/completions"
	ask(400, "invalid_json", http.MethodPost, chat, "sk-right", "{")
	ask(401, "invalid_api_key", http.MethodPost, chat, "sk-wrong", e2e.ChatBody("say:no", nil))
	ask(404, "unknown_url", http.MethodGet, "/v1/nothing", "sk-right", "")
	ask(413, "request_too_large", http.MethodPost, chat, "sk-right", e2e.ChatBody(strings.Repeat("long ", 30_000), nil))
	ctx, leave := e2e.ContextWithCancel(t)
	var others sync.WaitGroup
	defer others.Wait()
	defer leave()
	hang := func() {
		others.Go(func() { s.PostUntil(ctx, e2e.ChatBody("hang", nil), e2e.Bearer("sk-right")) })
	}
	hang()
	s.WaitOpen(1)
	hang()
	e2e.WaitFor(t, "a full queue", func() bool { return s.Samples()["codex_queue_waiting"] == 1 })
	ask(429, "codex_queue_full", http.MethodPost, chat, "sk-right", e2e.ChatBody("say:no", nil))
	load("max_queue 1 100ms") // a queue of its own
	hang()
	s.WaitOpen(2)
	ask(503, "codex_queue_timeout", http.MethodPost, chat, "sk-right", e2e.ChatBody("say:no", nil))
}

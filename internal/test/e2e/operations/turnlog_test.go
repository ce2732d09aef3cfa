package operations

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestTurnLog checks that the log of turns has a line for each turn, nothing else and no
// content.
func TestTurnLog(t *testing.T) {
	s := e2e.NewSite(t, "")
	dir := t.TempDir()
	turns, rest := filepath.Join(dir, "turns.log"), filepath.Join(dir, "rest.log")
	s.Load(strings.Replace(s.Caddyfile("api_key sk-logged alice"), "admin off", `log turns {
			output file `+turns+` {
				roll_disabled
			}
			include http.handlers.codex.turns
		}
		log default {
			output file `+rest+` {
				roll_disabled
			}
			level DEBUG
			exclude http.handlers.codex.turns
		}
		admin off`, 1))
	s.WaitReady()
	header := e2e.Bearer("sk-logged")
	header.Set("X-Request-Id", "req-of-a-turn")
	body := map[string]any{"stream": true, "messages": []any{
		map[string]any{"role": "system", "content": "PRIVATE-RULES"},
		map[string]any{"role": "user", "content": `say:PRIVATE-ANSWER; tool:localSearch {"query":"PRIVATE-QUERY"}`},
	}}
	if response, text := s.Post(e2e.ChatBody("", body), header); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text)
	}
	// Errors may quote the request.
	for _, wrong := range []string{`{"PRIVATE-FIELD`, `{"model":"gpt-5","messages":[{"role":"PRIVATE-ROLE","content":"x"}]}`, e2e.ChatBody("PRIVATE-MODE", map[string]any{"stop": map[string]any{"PRIVATE-KEY": 1}})} {
		s.Post(wrong, e2e.Bearer("sk-logged"))
	}
	s.Post(e2e.ChatBody("PRIVATE-PROMPT", nil), e2e.Bearer("sk-private-and-wrong"))
	var line map[string]any
	e2e.WaitFor(t, "the line of the turn", func() bool {
		line = e2e.LogLine(t, turns, "turn")
		return line != nil
	})
	for key, want := range map[string]any{
		"logger": "http.handlers.codex.turns", "request_id": "req-of-a-turn", "user": "alice@" + s.Addr, "model": "gpt-5", "output_mode": "openai-json",
		"route": "chat", "status": 200.0, "stream": true, "choice": 0.0,
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if line["duration"].(float64) <= 0 || line["first_output"].(float64) <= 0 || line["input_tokens"].(float64) <= 0 {
		t.Errorf("%v", line)
	}
	inTurns, inRest := e2e.ReadFile(t, turns), e2e.ReadFile(t, rest)
	if n := strings.Count(inTurns, "\n"); n != strings.Count(inTurns, `"msg":"turn"`) || n == 0 {
		t.Errorf("more than turns: %s", inTurns)
	}
	if strings.Contains(inRest, `"msg":"turn"`) || !strings.Contains(inRest, `"msg":"request refused"`) {
		t.Errorf("the other log: %s", inRest)
	}
	for name, text := range map[string]string{"turns": inTurns, "rest": inRest} {
		for _, secret := range []string{"PRIVATE", "sk-logged", "sk-private"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the log %s: %s", secret, name, text)
			}
		}
	}
}

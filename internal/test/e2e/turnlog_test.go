package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTurnLog checks that the log of turns has a line for each turn, nothing else and no
// content.
func TestTurnLog(t *testing.T) {
	s := newSite(t, "")
	dir := t.TempDir()
	turns, rest := filepath.Join(dir, "turns.log"), filepath.Join(dir, "rest.log")
	s.load(strings.Replace(s.caddyfile("api_key sk-logged alice"), "admin off", `log turns {
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
	s.waitReady()
	header := bearer("sk-logged")
	header.Set("X-Request-Id", "req-of-a-turn")
	body := map[string]any{"stream": true, "messages": []any{
		map[string]any{"role": "system", "content": "PRIVATE-RULES"},
		map[string]any{"role": "user", "content": `say:PRIVATE-ANSWER; tool:localSearch {"query":"PRIVATE-QUERY"}`},
	}}
	if response, text := s.post(chatBody("", body), header); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text)
	}
	// Errors may quote the request.
	for _, wrong := range []string{`{"PRIVATE-FIELD`, `{"model":"gpt-5","messages":[{"role":"PRIVATE-ROLE","content":"x"}]}`, chatBody("PRIVATE-MODE", map[string]any{"stop": map[string]any{"PRIVATE-KEY": 1}})} {
		s.post(wrong, bearer("sk-logged"))
	}
	s.post(chatBody("PRIVATE-PROMPT", nil), bearer("sk-private-and-wrong"))
	var line map[string]any
	waitFor(t, "the line of the turn", func() bool {
		line = logLine(t, turns, "turn")
		return line != nil
	})
	for key, want := range map[string]any{
		"logger": "http.handlers.codex.turns", "request_id": "req-of-a-turn", "user": "alice@" + s.addr, "model": "gpt-5", "output_mode": "openai-json",
		"route": "chat", "status": 200.0, "stream": true, "choice": 0.0,
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if line["duration"].(float64) <= 0 || line["first_output"].(float64) <= 0 || line["input_tokens"].(float64) <= 0 {
		t.Errorf("%v", line)
	}
	inTurns, inRest := readFile(t, turns), readFile(t, rest)
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

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/marathon"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestShorten: with the option, chats by both APIs that have no form for it outgrow the window of the model, also with
// calls of tools. Each summary is asked for in the thread of the chat. The model still knows what
// was said first.
func TestShorten(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	must.OK(t, marathon.SetWindow(s.Plan, s.Model, 20_000))
	s.Serve("shorten on\nollama on")
	s.WaitReady()
	tools := json.RawMessage(`[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"q":{"type":"integer"}}}}}]`)
	for path, message := range map[string]string{"/v1/chat/completions": "choices.0.message", "/api/chat": "message"} {
		t.Run(path, func(t *testing.T) {
			s := s.At(t)
			first := s.Model.Stats().Requests
			shortened := 0
			var messages []json.RawMessage
			ask := func(role, text, callID string) gjson.Result {
				t.Helper()
				m := map[string]any{"role": role, "content": text}
				if callID != "" {
					m["tool_call_id"] = callID
				}
				encoded, err := json.Marshal(m)
				must.OK(t, err)
				messages = append(messages, encoded)
				answer, body := s.Call(http.MethodPost, path, e2e.Fields{"model": "gpt-marathon", "stream": false, "tools": tools, "messages": messages}, nil)
				if answer.StatusCode != http.StatusOK {
					t.Fatalf("after %d messages: %s %s", len(messages), answer.Status, body)
				}
				if answer.Header.Get("X-Codex-Shortened") != "" {
					shortened++
				}
				said := gjson.Get(body, message)
				messages = append(messages, json.RawMessage(said.Raw))
				return said
			}
			ask("user", "FACT secret = 4711 say:Fine.", "")
			for i := range 80 {
				said := ask("user", fmt.Sprintf(`tool:1 f {"q":%d}; then; say:Fine %d.`, i, i), "")
				result := fmt.Sprintf("FACT n%d = v%d ", i, i) + strings.Repeat("some words that take room ", 120)
				for said.Get("tool_calls.0").Exists() { // after a summary, the scripted model calls again
					said, result = ask("tool", result, said.Get("tool_calls.0.id").String()), "Short."
				}
				if said.Get("content").String() != fmt.Sprintf("Fine %d.", i) {
					t.Fatalf("%d: %s", i, said)
				}
			}
			for name, want := range map[string]string{"secret": "4711", "n3": "v3", "n79": "v79"} {
				if said := ask("user", "RECALL "+name, ""); said.Get("content").String() != want {
					t.Errorf("%s: %s", name, said)
				}
			}
			summaries, alone := 0, 0
			requests := s.Model.Requests() // the last ones
			for i, r := range requests {
				if r.Number > first && r.AsksForSummary() {
					if summaries++; i == 0 || requests[i-1].PromptCacheKey != r.PromptCacheKey || r.Cached*10 < r.Tokens*9 {
						alone++
					}
				}
			}
			if summaries == 0 || shortened < 2 || shortened > 6 || alone > 0 {
				t.Errorf("%d summaries, %d of them on a thread of their own or not cached; %d answers say so", summaries, alone, shortened)
			}
		})
	}
}

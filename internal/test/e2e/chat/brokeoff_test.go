package chat

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestResponseBreaksOffAfterCall checks that a client gets its call and a proper end, also if the
// connection to the provider breaks while the model writes the next call.
func TestResponseBreaksOffAfterCall(t *testing.T) {
	const prompt = `tool:1 search {\"q\":\"whole\"}; tool:1 search {\"q\":\"in pieces\"}; cutoff`
	const schema = `{"type":"object","properties":{"q":{"type":"string"}}}`
	const function = `"name":"search","description":"d",`
	s := e2e.NewSite(t, "")
	for path, api := range map[string]struct{ body, end string }{
		"/v1/chat/completions": {`"messages":[{"role":"user","content":"PROMPT"}],"tools":[{"type":"function","function":{` + function + `"parameters":` + schema + `}}]`,
			`"finish_reason":"tool_calls"`},
		"/v1/responses": {`"store":false,"input":"PROMPT","tools":[{"type":"function",` + function + `"parameters":` + schema + `}]`,
			`"status":"completed"`},
		"/v1/messages": {`"max_tokens":1000,"messages":[{"role":"user","content":"PROMPT"}],"tools":[{` + function + `"input_schema":` + schema + `}]`,
			`"stop_reason":"tool_use"`},
	} {
		for _, stream := range []string{"true", "false"} {
			t.Run(path+" "+stream, func(t *testing.T) {
				t.Parallel()
				s := s.At(t)
				begin := time.Now()
				body := `{"model":"gpt-5","stream":` + stream + "," + strings.Replace(api.body, "PROMPT", prompt, 1) + "}"
				answer := s.Do(http.MethodPost, path, strings.NewReader(body), nil)
				text := s.Read(answer)
				took := time.Since(begin)
				if answer.StatusCode != http.StatusOK || !strings.Contains(text, "whole") || !strings.Contains(text, api.end) || strings.Contains(text, `"error":{`) {
					t.Errorf("%s after %s: %s", answer.Status, took, text)
				}
				if took > 25*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

package ollama

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/ollamacheck"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
)

// FuzzDecode sends any body to both routes. What is refused must be refused in Ollama's shape; what
// is accepted must give a plan that Codex can read.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"model":"m:latest","think":"max","format":{"type":"object"},"options":{"num_predict":-1,"stop":["a"],"seed":1},"keep_alive":-1,"tools":[{"type":"function","function":{"name":"f","parameters":{"$schema":"x"}}}],
		"messages":[{"role":"SYSTEM","content":"s"},{"role":"tool","content":"cut"},{"role":"user","content":"q","images":["iVBORw0KGgo="]},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},{"id":"x","function":{"name":"g"}}]},
		{"role":"tool","tool_name":"g","content":"2"},{"role":"tool","content":"1"}]}`))
	f.Add([]byte(`{"model":"m","prompt":"p","system":"s","images":["data:image/png;base64,iVBORw0KGgo="],"suffix":"","raw":true,"context":[1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		for _, decode := range []func([]byte) (*Request, *apierror.Error){DecodeChat, DecodeGenerate} {
			r, apiErr := decode(body)
			if string(body) != given {
				t.Fatal("the body was changed")
			}
			if apiErr == nil {
				meta := r.Meta(time.Now())
				var p *prompt.Plan
				if p, apiErr = r.Plan(prompt.Options{Efforts: func(string) (string, string) { return "low", "xhigh" }}); apiErr == nil {
					if (meta.loadReason == "") == r.onlyLoads {
						t.Fatal("a turn without a conversation, or the reverse")
					}
					if !r.onlyLoads {
						plancheck.Check(t, p)
					}
					continue
				}
			}
			if apiErr.Status != http.StatusBadRequest || apiErr.Type != apierror.TypeInvalidRequest {
				t.Fatalf("refused by %+v", apiErr)
			}
			status, refusal := EncodeError(apiErr, http.Header{})
			if text, err := ollamacheck.Failure(refusal); status != http.StatusBadRequest || err != nil || text == "" {
				t.Fatalf("refused by %d %s", status, refusal)
			}
		}
	})
}

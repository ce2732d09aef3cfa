package responses

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestClientTools calls each tool that the client runs, and gives back its output.
func TestClientTools(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, c := range []struct {
		tool                     e2e.Fields
		call, kind, member, want string
		output                   any
		heard                    string
	}{
		{e2e.Fields{"type": "shell"}, `shell {"commands":["ls"]}`, "shell_call", "action", `{"commands":["ls"],"timeout_ms":null,"max_output_length":null}`,
			[]e2e.Fields{{"stdout": "a file", "stderr": "", "outcome": e2e.Fields{"type": "exit", "exit_code": 0}}}, "a file"},
		{e2e.Fields{"type": "apply_patch"}, `client_apply_patch {"type":"update_file","path":"a","diff":"@@"}`, "apply_patch_call", "operation", `{"type":"update_file","path":"a","diff":"@@"}`, "patched", "completed: patched"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
				more := e2e.Fields{"tools": []any{c.tool}, "stream": stream}
				r := s.Respond(e2e.Asks("tool:1 "+c.call, more), nil)
				if r.Status != "completed" || len(r.Output) != 1 || r.Output[0].Type != c.kind || r.Output[0].CallID == "" {
					t.Fatalf("%+v", r)
				}
				_, raw := about(s, "GET", r.ID, nil)
				if err := apischema.Check("Response", []byte(raw)); err != nil {
					t.Error(err)
				}
				var whole struct{ Output []map[string]json.RawMessage }
				if err := json.Unmarshal([]byte(raw), &whole); err != nil || string(whole.Output[0][c.member]) != c.want {
					t.Errorf("%s %v", raw, err)
				}
				more["previous_response_id"] = r.ID
				output := e2e.Fields{"type": c.kind + "_output", "call_id": r.Output[0].CallID, "status": "completed", "output": c.output}
				next := s.Respond(e2e.Asks([]any{output}, more), nil)
				if !strings.Contains(next.Text(), c.heard) {
					t.Errorf("after the output: %q", next.Text())
				}
				// A client without stored responses sends the items back.
				more["previous_response_id"] = nil
				next = s.Respond(e2e.Asks([]any{e2e.Says("user", "go"), whole.Output[0], output}, more), nil)
				if !strings.Contains(next.Text(), c.heard) {
					t.Errorf("with the items: %q", next.Text())
				}
			})
		})
	}
}

package messages

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// back returns a message of the model's as Claude Code sends it back.
func back(m *messagecheck.Message) e2e.Fields {
	var blocks []any
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			blocks = append(blocks, e2e.Fields{"type": "text", "text": b.Text})
		case "thinking":
			blocks = append(blocks, e2e.Fields{"type": "thinking", "thinking": b.Thinking, "signature": b.Signature})
		case "tool_use":
			blocks = append(blocks, e2e.Fields{"type": "tool_use", "id": b.ID, "name": b.Name, "input": b.Input})
		}
	}
	return e2e.Fields{"role": "assistant", "content": blocks}
}

// given returns the items of the model's last request, a line each, and its cache key.
func given(s *e2e.Site) (lines []string, key string) {
	request, _ := s.Model.Last()
	for _, i := range request.Input {
		switch i.Type {
		case "function_call":
			lines = append(lines, "call "+i.Name+i.Arguments)
		case "function_call_output":
			lines = append(lines, "result "+i.Output.String())
		case "reasoning":
			lines = append(lines, "reasoning")
		default:
			lines = append(lines, i.Role+" "+i.Content.String())
		}
	}
	return lines, request.PromptCacheKey
}

// TestNotesBehindResults: notes of the role system behind the results of a parked turn do not
// end it, whatever stands beside them.
func TestNotesBehindResults(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		t.Cleanup(s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			_, answered := lastResult(r)
			return scriptedmodel.Script{Output: []scriptedmodel.Output{scriptedmodel.Say("Done.")}}, answered
		}))
		for _, more := range []string{
			"developer note", "user typed/developer note", "developer note/user typed", "user one/developer note/user two",
			"user typed", "developer one/developer two", "",
		} {
			t.Run(more, func(t *testing.T) {
				s := s.At(t)
				body := e2e.MessageBody("tool:2 f {\"q\":\"%d\"}", e2e.Fields{"tools": []any{tool("f")}, "stream": true})
				m := s.Message(body)
				_, key := given(s)
				history := append(body["messages"].([]any), back(m), e2e.UserMessage([]any{
					e2e.Fields{"type": "tool_result", "tool_use_id": m.Content[1].ID, "content": "second"},
					e2e.Fields{"type": "tool_result", "tool_use_id": m.Content[0].ID, "content": []any{e2e.Fields{"type": "text", "text": "first"}}, "is_error": true},
				}))
				want := []string{"result first", "result second"}
				for one := range strings.SplitSeq(more, "/") {
					if role, text, ok := strings.Cut(one, " "); ok {
						history = append(history, e2e.Fields{"role": map[string]string{"developer": "system", "user": "user"}[role], "content": text})
						want = append(want, one)
					}
				}
				body["messages"] = history
				s.Message(body)
				lines, again := given(s)
				if got := lines[len(lines)-len(want):]; again != key || !slices.Equal(got, want) {
					t.Errorf("the model got %q with the key %s; want %q with %s", got, again, want, key)
				}
			})
		}
	})
}

// lastResult returns the last item of a request, and whether there is a result in it.
func lastResult(r scriptedmodel.Request) (scriptedmodel.Item, bool) {
	return r.Input[len(r.Input)-1], slices.ContainsFunc(r.Input, func(i scriptedmodel.Item) bool { return i.Type == "function_call_output" })
}

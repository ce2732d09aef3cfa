package messages

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

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
				history := append(body["messages"].([]any), m.Back(), e2e.UserMessage([]any{
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

// TestSignatures: the signatures of thinking blocks carry the model's reasoning into a thread
// that knows nothing of it.
func TestSignatures(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "conversations off")
		for _, display := range []string{"summarized", "omitted"} {
			body := e2e.MessageBody("reason:Hm.; say:So.", e2e.Fields{"stream": true, "thinking": e2e.Fields{"type": "adaptive", "display": display}})
			m := s.Message(body)
			if len(m.Content) != 2 || m.Content[0].Signature == "" || (m.Content[0].Thinking == "") != (display == "omitted") {
				t.Fatalf("%s: %+v", display, m)
			}
			foreign := e2e.Fields{"role": "assistant", "content": []any{e2e.Fields{"type": "thinking", "thinking": "Else.", "signature": "EqoBCkgI"}, e2e.Fields{"type": "text", "text": "Other."}}}
			body["messages"] = append(body["messages"].([]any), m.Back(), e2e.UserMessage("and?"), foreign, e2e.UserMessage("say:Yes."))
			s.Message(body)
			lines, _ := given(s)
			request, _ := s.Model.Last()
			if all := strings.Join(lines[1:], "/"); all != "user reason:Hm.; say:So./reasoning/assistant So./user and?/assistant Other./user say:Yes." || strings.Contains(string(request.Body), "EqoB") {
				t.Errorf("%s: the model was given %s", display, all)
			}
			at := slices.IndexFunc(request.Input, func(i scriptedmodel.Item) bool { return i.Type == "reasoning" })
			if at < 0 || request.Input[at].EncryptedContent == "" {
				t.Errorf("%s: %+v", display, request.Input)
			}
		}
	})
}

// TestSameItems: the same question by each of the APIs gives the model the same, whether results
// of calls end it or a text of the user's, and also with a model whose effort can change.
func TestSameItems(t *testing.T) {
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "conversations off")
		for _, model := range []string{"gpt-5", "gpt-6.1-sol"} {
			for _, prompt := range []string{"say:Done.", ""} {
				t.Run(model+" "+prompt, func(t *testing.T) { testSameItems(s.At(t), model, prompt) })
			}
		}
	})
}

func testSameItems(s *e2e.Site, model, prompt string) {
	schema := e2e.Fields{"type": "object", "properties": e2e.Fields{"q": e2e.Fields{"type": "string"}}}
	function := e2e.Fields{"name": "f", "description": "Does f", "parameters": schema}
	var last []any
	blocks := []any{e2e.Fields{"type": "tool_result", "tool_use_id": "c", "content": "r"}}
	if prompt != "" {
		last = []any{e2e.UserMessage(prompt)}
		blocks = append(blocks, e2e.Fields{"type": "text", "text": prompt})
	}
	response, text := s.Post(e2e.ChatBody("", e2e.Fields{"model": model, "tools": []any{e2e.Fields{"type": "function", "function": function}}, "messages": append([]any{
		e2e.Fields{"role": "system", "content": "Be brief."}, e2e.UserMessage("q 😀"),
		e2e.Fields{"role": "assistant", "content": "Look.", "tool_calls": []any{e2e.Fields{"id": "c", "type": "function", "function": e2e.Fields{"name": "f", "arguments": `{"q":"ü"}`}}}},
		e2e.Fields{"role": "tool", "tool_call_id": "c", "content": "r"},
	}, last...)}), nil)
	if response.StatusCode != http.StatusOK {
		s.T.Fatal(text)
	}
	want := lastAsked(s)
	s.Respond(e2e.Fields{
		"model": model, "instructions": "Be brief.", "tools": []any{e2e.Fields{"type": "function", "name": "f", "description": "Does f", "parameters": schema}},
		"input": append([]any{
			e2e.UserMessage("q 😀"), e2e.Fields{"role": "assistant", "content": "Look."},
			e2e.Fields{"type": "function_call", "call_id": "c", "name": "f", "arguments": `{"q":"ü"}`},
			e2e.Fields{"type": "function_call_output", "call_id": "c", "output": "r"},
		}, last...),
	}, nil)
	if got := lastAsked(s); got != want {
		s.T.Errorf("Responses\n%s\nchat\n%s", got, want)
	}
	s.Message(e2e.MessageBody("", e2e.Fields{
		"model": model, "system": "Be brief.", "tools": []any{e2e.Fields{"name": "f", "description": "Does f", "input_schema": schema}},
		"messages": []any{
			e2e.UserMessage("q 😀"),
			e2e.Fields{"role": "assistant", "content": []any{e2e.Fields{"type": "text", "text": "Look."}, e2e.Fields{"type": "tool_use", "id": "c", "name": "f", "input": e2e.Fields{"q": "ü"}}}},
			e2e.UserMessage(blocks),
		},
	}))
	if got := lastAsked(s); got != want {
		s.T.Errorf("Messages\n%s\nchat\n%s", got, want)
	}
}

// lastAsked returns the items and the tools of the model's last request.
func lastAsked(s *e2e.Site) string {
	request, _ := s.Model.Last()
	var body struct {
		Input []map[string]any
		Tools json.RawMessage
	}
	if err := json.Unmarshal(request.Body, &body); err != nil {
		s.T.Fatal(err)
	}
	for _, item := range body.Input {
		delete(item, "id") // Codex's, as are the times that it sends with a login
		delete(item, "internal_chat_message_metadata_passthrough")
	}
	return e2e.AsJSON(s.T, body)
}

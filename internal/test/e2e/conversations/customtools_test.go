package conversations

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
)

// TestCursor sends Responses API bodies to chat completions, with a custom tool beside functions,
// as Cursor does. The answers are chat completions with function calls only.
func TestCursor(t *testing.T) {
	s := e2e.NewSite(t, "")
	const patch = "*** Begin Patch\n*** Add File: a \"b\"\n+x\n*** End Patch"
	quoted, _ := json.Marshal(patch)
	tools := []e2e.Fields{
		e2e.FunctionTool("read_file"),
		{"type": "custom", "name": "ApplyPatch", "description": "Edits files.", "format": e2e.Fields{"type": "grammar", "syntax": "lark", "definition": "start: begin_patch"}},
	}
	e2e.EachWay(t, s, func(t *testing.T, s *e2e.Site, stream bool) {
		ask := func(input ...any) *apiclient.Answer {
			request := e2e.Fields{
				"model": "gpt-5", "user": "u", "input": append([]any{e2e.Fields{"role": "system", "content": "You edit files."}}, input...), "tools": tools, "tool_choice": "auto",
				"stream": stream, "store": false, "include": []string{"reasoning.encrypted_content"}, "reasoning": e2e.Fields{"effort": "medium", "summary": "auto"},
			}
			if stream {
				request["stream_options"] = e2e.Fields{"include_usage": true}
			}
			response, text := s.Call(http.MethodPost, "/v1/chat/completions", request, nil)
			answer, err := apiclient.Read([]byte(text), apiclient.Chat, stream, 1)
			if response.StatusCode != http.StatusOK || err != nil {
				t.Fatal(response.Status, text, err)
			}
			return answer
		}
		question := e2e.Fields{"role": "user", "content": []e2e.Fields{{"type": "input_text", "text": `say:I edit.; tool:1 ApplyPatch {"input":` + string(quoted) + `}`}}}
		a := ask(question)
		choice := a.Choices[0]
		if choice.Text != "I edit." || choice.Finish != "tool_calls" || len(choice.Calls) != 1 || choice.Calls[0].Name != "ApplyPatch" || choice.Calls[0].Arguments != patch || a.Usage == nil {
			t.Fatalf("%+v", a)
		}
		request, _ := s.Model.Last()
		if request.Reasoning.Effort != "medium" || !strings.Contains(e2e.EncodeJSON(request.Tools), "start: begin_patch") {
			t.Errorf("the model was given %+v", request)
		}
		a = ask(question, e2e.Fields{"role": "assistant", "content": []e2e.Fields{{"type": "output_text", "text": "I edit."}}},
			e2e.Fields{"type": "function_call", "call_id": choice.Calls[0].ID, "name": "ApplyPatch", "arguments": patch},
			e2e.Fields{"type": "function_call_output", "call_id": choice.Calls[0].ID, "output": "patched"})
		if !strings.Contains(a.Choices[0].Text, "patched") || a.Choices[0].Finish != "stop" {
			t.Errorf("after the output: %+v", a)
		}
		request, _ = s.Model.Last()
		found := false
		for _, item := range request.Input {
			found = found || item.Type == "function_call" && item.Arguments == `{"input":`+string(quoted)+`}`
		}
		if !found {
			t.Errorf("the model did not get its call back: %+v", request.Input)
		}
	})
	for body, param := range map[string]string{
		`{"model":"gpt-5","input":"q","previous_response_id":"resp_1"}`:  "previous_response_id",
		`{"model":"gpt-5","input":[{"type":"item_reference","id":"x"}]}`: "input[0].id",
	} {
		if answer, text := s.Post(body, nil); answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"param":"`+param+`"`) {
			t.Errorf("%s: %s %s", body, answer.Status, text)
		}
	}
}

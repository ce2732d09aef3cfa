package conversations

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/sse"
)

// customCall is a call, or a part of one in a delta.
type customCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// customAnswer is a chat completion with at most one call, streamed or not.
type customAnswer struct {
	content, finish string
	call            customCall
	usage           bool
}

// askRaw posts a body to the chat route and reads the answer.
func askRaw(s *e2e.Site, request e2e.Fields) (a customAnswer) {
	s.T.Helper()
	answer := s.Do(http.MethodPost, "/v1/chat/completions", strings.NewReader(e2e.EncodeJSON(request)), nil)
	if answer.StatusCode != http.StatusOK {
		s.T.Fatal(answer.Status, s.Read(answer))
	}
	add := func(data string) {
		var c struct {
			Choices []struct {
				Message, Delta struct {
					Content string       `json:"content"`
					Calls   []customCall `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
			Usage *struct{}
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			s.T.Fatal(data, err)
		}
		a.usage = a.usage || c.Usage != nil
		for _, choice := range c.Choices {
			a.content += choice.Message.Content + choice.Delta.Content
			a.finish += choice.FinishReason
			for _, call := range append(choice.Message.Calls, choice.Delta.Calls...) {
				a.call.ID += call.ID
				a.call.Type += call.Type
				a.call.Function.Name += call.Function.Name
				a.call.Function.Arguments += call.Function.Arguments
			}
		}
	}
	if request["stream"] != true {
		add(s.Read(answer))
		return a
	}
	defer answer.Body.Close()
	for event, err := range sse.Read(answer.Body) {
		if err != nil {
			s.T.Fatal(err)
		}
		if event.Data != "[DONE]" {
			add(event.Data)
		}
	}
	return a
}

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
		ask := func(input ...any) customAnswer {
			request := e2e.Fields{
				"model": "gpt-5", "user": "u", "input": append([]any{e2e.Fields{"role": "system", "content": "You edit files."}}, input...), "tools": tools, "tool_choice": "auto",
				"stream": stream, "store": false, "include": []string{"reasoning.encrypted_content"}, "reasoning": e2e.Fields{"effort": "medium", "summary": "auto"},
			}
			if stream {
				request["stream_options"] = e2e.Fields{"include_usage": true}
			}
			return askRaw(s, request)
		}
		question := e2e.Fields{"role": "user", "content": []e2e.Fields{{"type": "input_text", "text": `say:I edit.; tool:1 ApplyPatch {"input":` + string(quoted) + `}`}}}
		a := ask(question)
		if a.content != "I edit." || a.finish != "tool_calls" || a.call.Type != "function" || a.call.Function.Name != "ApplyPatch" || a.call.Function.Arguments != patch || !a.usage {
			t.Fatalf("%+v", a)
		}
		request, _ := s.Model.Last()
		if request.Reasoning.Effort != "medium" || !strings.Contains(e2e.EncodeJSON(request.Tools), "start: begin_patch") {
			t.Errorf("the model was given %+v", request)
		}
		a = ask(question, e2e.Fields{"role": "assistant", "content": []e2e.Fields{{"type": "output_text", "text": "I edit."}}},
			e2e.Fields{"type": "function_call", "call_id": a.call.ID, "name": "ApplyPatch", "arguments": patch},
			e2e.Fields{"type": "function_call_output", "call_id": a.call.ID, "output": "patched"})
		if !strings.Contains(a.content, "patched") || a.finish != "stop" {
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

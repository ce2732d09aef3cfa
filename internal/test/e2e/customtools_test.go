package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
)

// customCall is a call of a custom tool, or a part of one in a delta.
type customCall struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Custom struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
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
func (s *site) askRaw(request fields) (a customAnswer) {
	s.t.Helper()
	answer := s.do(http.MethodPost, "/v1/chat/completions", strings.NewReader(encodeJSON(request)), nil)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatal(answer.Status, s.read(answer))
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
			s.t.Fatal(data, err)
		}
		a.usage = a.usage || c.Usage != nil
		for _, choice := range c.Choices {
			a.content += choice.Message.Content + choice.Delta.Content
			a.finish += choice.FinishReason
			for _, call := range append(choice.Message.Calls, choice.Delta.Calls...) {
				a.call.ID += call.ID
				a.call.Type += call.Type
				a.call.Custom.Name += call.Custom.Name
				a.call.Custom.Input += call.Custom.Input
				a.call.Function.Name += call.Function.Name
				a.call.Function.Arguments += call.Function.Arguments
			}
		}
	}
	if request["stream"] != true {
		add(s.read(answer))
		return a
	}
	defer answer.Body.Close()
	for events := apiclient.NewReader(answer.Body); ; {
		event, err := events.Next()
		if err == io.EOF {
			return a
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if event.Data != "[DONE]" {
			add(event.Data)
		}
	}
}

// TestCursor sends requests like Cursor: bodies of the Responses API on the route of
// chat completions, with a custom tool beside functions. The answers are chat
// completions whose calls are all function calls.
func TestCursor(t *testing.T) {
	s := newSite(t, "")
	const patch = "*** Begin Patch\n*** Add File: a \"b\"\n+x\n*** End Patch"
	quoted, _ := json.Marshal(patch)
	tools := []fields{
		functionTool("read_file"),
		{"type": "custom", "name": "ApplyPatch", "description": "Edits files.", "format": fields{"type": "grammar", "syntax": "lark", "definition": "start: begin_patch"}},
	}
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		ask := func(input ...any) customAnswer {
			request := fields{
				"model": "gpt-5", "user": "u", "input": append([]any{fields{"role": "system", "content": "You edit files."}}, input...), "tools": tools, "tool_choice": "auto",
				"stream": stream, "store": false, "include": []string{"reasoning.encrypted_content"}, "reasoning": fields{"effort": "medium", "summary": "auto"},
			}
			if stream {
				request["stream_options"] = fields{"include_usage": true}
			}
			return s.askRaw(request)
		}
		question := fields{"role": "user", "content": []fields{{"type": "input_text", "text": `say:I edit.; tool:1 ApplyPatch {"input":` + string(quoted) + `}`}}}
		a := ask(question)
		if a.content != "I edit." || a.finish != "tool_calls" || a.call.Type != "function" || a.call.Function.Name != "ApplyPatch" || a.call.Function.Arguments != patch || !a.usage {
			t.Fatalf("%+v", a)
		}
		request, _ := s.model.Last()
		if request.Reasoning.Effort != "medium" || !strings.Contains(encodeJSON(request.Tools), "start: begin_patch") {
			t.Errorf("the model was given %+v", request)
		}
		a = ask(question, fields{"role": "assistant", "content": []fields{{"type": "output_text", "text": "I edit."}}},
			fields{"type": "function_call", "call_id": a.call.ID, "name": "ApplyPatch", "arguments": patch},
			fields{"type": "function_call_output", "call_id": a.call.ID, "output": "patched"})
		if !strings.Contains(a.content, "patched") || a.finish != "stop" {
			t.Errorf("after the output: %+v", a)
		}
		request, _ = s.model.Last()
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
		if answer, text := s.post(body, nil); answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"param":"`+param+`"`) {
			t.Errorf("%s: %s %s", body, answer.Status, text)
		}
	}
}

// TestCustomTools calls a custom tool in chat completions and sends its result.
func TestCustomTools(t *testing.T) {
	s := newSite(t, "")
	tool := fields{"type": "custom", "custom": fields{"name": "run_sql", "format": fields{"type": "grammar", "grammar": fields{"syntax": "regex", "definition": "SELECT .*"}}}}
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		request := fields{
			"model": "gpt-5", "stream": stream, "tools": []any{tool}, "tool_choice": fields{"type": "custom", "custom": fields{"name": "run_sql"}},
			"messages": []fields{{"role": "user", "content": `tool:1 run_sql {"input":"SELECT \"a\""}`}},
		}
		a := s.askRaw(request)
		if a.finish != "tool_calls" || a.call.Type != "custom" || a.call.Custom.Name != "run_sql" || a.call.Custom.Input != `SELECT "a"` || a.call.Function.Name != "" {
			t.Fatalf("%+v", a)
		}
		request["messages"] = append(request["messages"].([]fields),
			fields{"role": "assistant", "tool_calls": []any{fields{"id": a.call.ID, "type": "custom", "custom": a.call.Custom}}},
			fields{"role": "tool", "tool_call_id": a.call.ID, "content": "one row"})
		if a = s.askRaw(request); !strings.Contains(a.content, "one row") {
			t.Errorf("after the result: %+v", a)
		}
	})
	t.Run("openai-go", func(t *testing.T) {
		params := userSays(`tool:1 run_sql {"input":"SELECT 1"}`)
		params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionCustomTool(openai.ChatCompletionCustomToolCustomParam{Name: "run_sql"})}
		a, err := s.at(t).complete(params)
		if err != nil {
			t.Fatal(err)
		}
		if call := a.calls[0].AsCustom(); call.Custom.Name != "run_sql" || call.Custom.Input != "SELECT 1" {
			t.Fatalf("%s", a.calls[0].RawJSON())
		}
	})
}

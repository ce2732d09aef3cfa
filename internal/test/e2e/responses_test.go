package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func TestResponsesBurst(t *testing.T) {
	s := newSite(t, "")
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		r := s.respond(asks(`say:I look.; tool:3 localSearch {"query":"note %d"}`, fields{"tools": []fields{functionTool("localSearch")}, "stream": stream}), nil)
		if r.Status != "completed" || r.types() != "message function_call function_call function_call" {
			t.Fatalf("%+v", r)
		}
		var arguments []string
		items := []fields{says("user", "find")}
		for _, call := range r.calls() {
			arguments = append(arguments, call.Arguments)
			items = append(items, fields{"type": "function_call", "call_id": call.CallID, "name": call.Name, "arguments": call.Arguments})
		}
		if want := []string{`{"query":"note 1"}`, `{"query":"note 2"}`, `{"query":"note 3"}`}; !slices.Equal(arguments, want) {
			t.Errorf("got %q", arguments)
		}
		for i, call := range r.calls() {
			items = append(items, fields{"type": "function_call_output", "call_id": call.CallID, "output": "found " + string(rune('a'+i))})
		}
		next := s.respond(asks(items, fields{"tools": []fields{functionTool("localSearch")}, "stream": stream}), nil)
		if !strings.Contains(next.text(), "found a") || !strings.Contains(next.text(), "found c") {
			t.Errorf("after the outputs: %q", next.text())
		}
	})
}

// TestResponsesBlocks checks that textual calls are items or text, depending on the mode.
func TestResponsesBlocks(t *testing.T) {
	s := newSite(t, "")
	prompt := `say:Before.; usetool:2 localSearch {"query":"n%d"}`
	request := fields{"tools": []fields{functionTool("localSearch")}}
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		request["stream"] = stream
		r := s.respond(asks(prompt, request), nil)
		if r.types() != "message function_call function_call" || strings.Contains(r.text(), "use_tool") || r.calls()[1].Arguments != `{"query":"n2"}` {
			t.Errorf("openai-json: %s %q %+v", r.types(), r.text(), r.calls())
		}
		r = s.respond(asks(prompt, request), http.Header{"X-Proxy-Output-Mode": {"obsidian-xml"}})
		if len(r.calls()) != 0 || strings.Count(r.text(), "<use_tool>") != 2 || !strings.HasPrefix(r.text(), "Before.") {
			t.Errorf("obsidian-xml: %s %q", r.types(), r.text())
		}
		// A block may have an invalid name of a tool. The conversation continues.
		r = s.respond(asks("verbatim:<use_tool>\n<name>my tool</name>\n<a>b</a>\n</use_tool>", fields{
			"instructions": "Write <use_tool> blocks.", "tools": request["tools"], "stream": stream,
		}), nil)
		if calls := r.calls(); len(calls) != 1 || calls[0].Name != "my tool" {
			t.Fatalf("%s %q", r.types(), r.text())
		}
		output := []fields{{"type": "function_call_output", "call_id": r.calls()[0].CallID, "output": "done"}}
		if next := s.respond(asks(output, fields{"previous_response_id": r.ID, "stream": stream}), nil); !strings.Contains(next.text(), "done") {
			t.Errorf("%q", next.text())
		}
	})
}

func TestResponsesReasoning(t *testing.T) { overBoth(t, testResponsesReasoning) }

func testResponsesReasoning(t *testing.T) {
	s := newSite(t, "")
	prompt := "usage:100,20,30,10; reason:First.\n\nSecond.; reason:Again.; say:Done."
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		r := s.respond(asks(prompt, fields{
			"stream": stream, "reasoning": fields{"effort": "high", "summary": "detailed"}, "include": []string{"reasoning.encrypted_content"},
		}), nil)
		if r.types() != "reasoning reasoning message" || len(r.Output[0].Summary) != 2 || r.Output[0].Summary[1].Text != "Second." || r.Output[0].Encrypted == "" {
			t.Fatalf("%+v", r.Output)
		}
		request, _ := s.model.Last()
		if request.Reasoning.Effort != "high" || request.Reasoning.Summary != "detailed" {
			t.Errorf("the model was asked for %+v", request.Reasoning)
		}
		if u := r.Usage; u.Input != 100 || u.InputDetails.Cached != 20 || u.Output != 30 || u.OutputDetails.Reasoning != 10 || u.Total != 130 {
			t.Errorf("usage %+v", u)
		}
		// The model gets its reasoning back, with its own id.
		reasoning := fields{"type": "reasoning", "id": r.Output[0].ID, "summary": []any{}, "encrypted_content": r.Output[0].Encrypted}
		s.respond(asks([]any{says("user", "q"), reasoning, says("assistant", "a"), says("user", "say:Fine.")}, fields{"stream": stream}), nil)
		request, _ = s.model.Last()
		at := slices.IndexFunc(request.Input, func(i scriptedmodel.Item) bool { return i.Type == "reasoning" })
		if at < 0 || request.Input[at].EncryptedContent != r.Output[0].Encrypted || !strings.HasSuffix(r.Output[0].Encrypted, " "+request.Input[at].ID) {
			t.Errorf("the model was given %+v", request.Input)
		}
	})
	r := s.respond(asks(prompt, nil), nil)
	if request, _ := s.model.Last(); r.types() == "" || r.Output[0].Encrypted != "" || request.Reasoning.Summary != "" {
		t.Errorf("nobody asked for a summary: %s, %+v", r.types(), request.Reasoning)
	}
}

// TestResponsesEnds checks incomplete and failed responses, before and after the first
// event.
func TestResponsesEnds(t *testing.T) { overBoth(t, testResponsesEnds) }

func testResponsesEnds(t *testing.T) {
	s := newSite(t, "")
	eachWay(t, s, func(t *testing.T, s *site, stream bool) {
		for reason := range map[string]bool{"max_output_tokens": true, "content_filter": true} {
			r := s.respond(asks("say:It is; incomplete:"+reason, fields{"stream": stream}), nil)
			if r.Status != "incomplete" || r.Incomplete == nil || r.Incomplete.Reason != reason || r.text() != "It is" || r.Output[0].Status != "incomplete" {
				t.Errorf("%s: %+v", reason, r)
			}
		}
		r := s.respond(asks("chunk=3; say:"+strings.Repeat("word ", 40), fields{"stream": stream, "max_output_tokens": 16}), nil)
		if r.Status != "incomplete" || r.Incomplete == nil || r.Incomplete.Reason != "max_output_tokens" || strings.Count(r.text(), "word") > 16 || r.text() == "" {
			t.Errorf("at most 16 tokens: %+v", r)
		}
		slow, wait := "fail:rate_limit_exceeded Slow down. Please try again in 7s.", "7"
		if transport == scriptedmodel.WebSocket {
			slow, wait = "fail:rate_limit_exceeded Slow down.", "1" // Codex would wait for that time
		}
		answer, refused := s.refuseResponse(asks(slow, fields{"stream": stream}), nil)
		if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") != wait || *refused.Error.Code != "rate_limit_exceeded" {
			t.Errorf("%s %s %s", answer.Status, answer.Header.Get("Retry-After"), *refused.Error.Message)
		}
		if answer, refused = s.refuseResponse(asks("fail:context_length_exceeded", fields{"stream": stream}), nil); answer.StatusCode != 400 || *refused.Error.Param != "input" {
			t.Errorf("%s, param %v", answer.Status, refused.Error.Param)
		}
	})
	r := s.respond(asks("chunk=2; say:It is so; fail:server_error Broken.", fields{"stream": true}), nil)
	if r.Status != "failed" || r.text() != "It is so" || !strings.Contains(string(r.Error), `"code":"server_error"`) || r.events[len(r.events)-1].Type != "response.failed" {
		t.Errorf("after the first event: %s %s", r.Status, r.Error)
	}
	status, body := s.get("/v1/responses/" + r.ID)
	if status != http.StatusOK || s.parseResponse([]byte(body)).Status != "failed" {
		t.Errorf("kept as %d %s", status, body)
	}
}

// TestResponsesSettings checks which settings of a request reach the model.
func TestResponsesSettings(t *testing.T) {
	s := newSite(t, "")
	schema := fields{"type": "object", "properties": fields{"a": fields{"type": "string"}}, "required": []string{"a"}, "additionalProperties": false}
	answer := s.do(http.MethodPost, "/v1/responses", strings.NewReader(encodeJSON(asks(`verbatim:{"a":"b"}`, fields{
		"instructions": "Be brief.",
		"text":         fields{"format": fields{"type": "json_schema", "name": "n", "schema": schema, "strict": true}, "verbosity": "low"},
		"tools":        []fields{functionTool("localSearch"), functionTool("exec_command")},
		"tool_choice":  fields{"type": "allowed_tools", "mode": "auto", "tools": []fields{{"type": "function", "name": "exec_command"}}},
		"metadata":     fields{"k": "v"}, "temperature": 0.5, "truncation": "auto", "user": "u", "stream_options": fields{"include_obfuscation": false},
	}))), nil)
	body := s.read(answer)
	if answer.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	s.parseResponse([]byte(body))
	if got := answer.Header.Get("X-Codex-Ignored-Params"); got != "temperature, truncation" {
		// They are in the order of the body, which is sorted.
		t.Errorf("ignored %q", got)
	}
	var echo map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &echo); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"instructions": `"Be brief."`, "metadata": `{"k":"v"}`, "temperature": "0.5", "truncation": `"auto"`, "user": `"u"`, "store": "true", "parallel_tool_calls": "true",
	} {
		if got := string(echo[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	request, _ := s.model.Last()
	checkTools(t, request.Tools, "client_exec_command")
	if got := describe(request); !slices.Contains(got, "developer: Be brief.") || request.Text.Format.Type != "json_schema" || !request.Text.Format.Strict {
		t.Errorf("the model was given %q, %+v", got, request.Text.Format)
	}
}

// TestResponsesRefusals checks that invalid requests are refused with the field, and do
// not reach Codex.
func TestResponsesRefusals(t *testing.T) {
	s := newSite(t, "")
	before := s.model.Stats().Requests
	for param, request := range map[string]fields{
		"tools[1].type":            asks("q", fields{"tools": []fields{functionTool("f"), {"type": "web_search"}}}),
		"tools[0].type":            asks("q", fields{"tools": []fields{{"type": "mcp", "server_label": "x"}}}),
		"background":               asks("q", fields{"background": true, "store": false}),
		"input[0].content[0].type": asks([]fields{{"role": "user", "content": []fields{{"type": "input_file", "file_id": "f"}}}}, nil),
		"input[1].call_id":         asks([]fields{says("user", "q"), {"type": "function_call_output", "call_id": "c", "output": "x"}}, nil),
		"input[0].call_id":         asks([]fields{{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}}, nil),
		"input[0].id":              asks([]fields{{"type": "item_reference", "id": "msg_1"}}, nil),
		"input[1]":                 asks([]fields{says("user", "a"), {"type": "web_search_call", "action": 5}, says("user", "q")}, nil),
		"input[0].type":            asks([]fields{{"type": "code_interpreter_call", "id": "x"}}, nil),
		"previous_response_id":     asks("q", fields{"previous_response_id": "resp_none"}),
		"messages":                 {"model": "gpt-5", "messages": []fields{}},
		"input":                    {"model": "gpt-5"},
	} {
		answer, refused := s.refuseResponse(request, nil)
		if answer.StatusCode != http.StatusBadRequest || refused.Error.Param == nil || *refused.Error.Param != param {
			t.Errorf("%s: %s %s", param, answer.Status, encodeJSON(refused))
		}
	}
	if after := s.model.Stats().Requests; after != before {
		t.Errorf("%d requests reached the model", after-before)
	}
}

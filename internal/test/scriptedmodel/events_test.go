package scriptedmodel

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/apischema"
)

// responseFields are the members of each response object. Codex and OpenAI itself
// leave out others that OpenAI's description requires.
var responseFields = []string{
	"id", "object", "created_at", "status", "error", "incomplete_details", "instructions", "model", "tools", "output",
	"parallel_tool_calls", "metadata", "tool_choice", "temperature", "top_p", "usage",
}

// checkEvents checks what every stream has: events as OpenAI describes them,
// sequence numbers without gaps, items in order, and matching ids.
func checkEvents(t *testing.T, events []object) {
	t.Helper()
	var open string // id of the item that is being sent
	items := 0
	for i, e := range events {
		typ, _ := e["type"].(string)
		if e["sequence_number"] != float64(i) {
			t.Errorf("event %d has the sequence number %v", i, e["sequence_number"])
		}
		if r := e["response"]; r != nil {
			if err := hasFields(r, responseFields...); err != nil {
				t.Error(err)
			}
			continue
		}
		data, err := json.Marshal(e)
		if err == nil {
			err = apischema.CheckEvent(data)
		}
		if err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		if e["output_index"] != float64(items) {
			t.Errorf("event %d (%s) is of output %v, want %d", i, typ, e["output_index"], items)
		}
		switch id, _ := e.at("item", "id").(string); typ {
		case "response.output_item.added":
			open = id
		case "response.output_item.done":
			items++
			if id != open {
				t.Errorf("the item %q ends, %q is open", id, open)
			}
		default:
			if e["item_id"] != open {
				t.Errorf("event %d (%s) is of item %v, %q is open", i, typ, e["item_id"], open)
			}
		}
	}
}

const (
	begin   = "created in_progress "
	message = "output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done "
	call    = "output_item.added function_call_arguments.delta function_call_arguments.done output_item.done "
	part    = "reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done "
)

// TestOrder checks that each kind of script gives the events in the API's order.
func TestOrder(t *testing.T) {
	reasoning := "output_item.added " + part + "output_item.done "
	twoParts := "output_item.added " + part + part + "output_item.done "
	openMessage := "output_item.added content_part.added output_text.delta"
	cases := []struct{ prompt, want string }{
		{"say:hello", begin + message + "completed"},
		{"say:", begin + strings.Replace(message, "output_text.delta ", "", 1) + "completed"},
		{"say:a\nsay:b", begin + message + message + "completed"},
		{"reason:why; say:because", begin + reasoning + message + "completed"},
		{"reason:one\n\ntwo", begin + twoParts + "completed"},
		{"tool:f", begin + call + "completed"},
		{"tool:3 f", begin + call + call + call + "completed"},
		{"say:look; tool:f; say:done", begin + message + call + message + "completed"},
		{"usage:1,2,3,4", begin + "completed"},
		{"fail:server_error", begin + "failed"},
		{"say:x; fail:server_error", begin + message + "failed"},
		{"incomplete:max_output_tokens", begin + message + "incomplete"},
		{"tool:f; incomplete:max_output_tokens", begin + call + "incomplete"},
		{"cutoff", begin + openMessage},
		{"say:a; say:b; cutoff", begin + message + openMessage},
		{"tool:f; cutoff", begin + "output_item.added function_call_arguments.delta"},
		{"reason:a\n\nb; cutoff", begin + "output_item.added " + part + "reasoning_summary_part.added reasoning_summary_text.delta"},
	}
	s := start(t)
	for _, c := range cases {
		t.Run(c.prompt, func(t *testing.T) {
			a := (&site{s.Server, t, s.url, s.client}).ask(body(c.prompt, nil))
			if got := a.types(); got != c.want {
				t.Errorf("events\n%s\nwant\n%s", got, c.want)
			}
			want := io.EOF
			if strings.Contains(c.prompt, "cutoff") {
				want = io.ErrUnexpectedEOF
			}
			if a.err != want {
				t.Errorf("the stream ended with %v, want %v", a.err, want)
			}
		})
	}
}

// TestFinalResponse checks the whole response in the last event.
func TestFinalResponse(t *testing.T) {
	s := start(t)
	tool := object{"type": "function", "name": "f", "parameters": object{"type": "object"}, "x-own": 1}
	a := s.prompt("reason:why; say:Grüße; tool:f {}", object{
		"tools": []any{tool}, "instructions": "Be brief.", "parallel_tool_calls": false, "include": []any{"reasoning.encrypted_content"},
	})
	response := object(a.last()["response"].(map[string]any))
	want := map[string]any{
		"object": "response", "id": "resp_1", "status": "completed", "model": "gpt-5", "instructions": "Be brief.",
		"parallel_tool_calls": false, "tool_choice": "auto", "error": nil, "incomplete_details": nil,
	}
	for name, value := range want {
		if response[name] != value {
			t.Errorf("%s is %v, want %v", name, response[name], value)
		}
	}
	if got := object(response["tools"].([]any)[0].(map[string]any)); got["x-own"] != 1.0 {
		t.Errorf("the tool came back as %v", got)
	}
	output := response["output"].([]any)
	if len(output) != 3 {
		t.Fatalf("output: %v", output)
	}
	for i, done := range slices.Collect(doneItems(a)) {
		got := object(output[i].(map[string]any))
		if got["id"] != done["id"] || got["status"] != "completed" {
			t.Errorf("output %d is %v, the event had %v", i, got, done)
		}
	}
	if got := object(output[0].(map[string]any))["encrypted_content"]; got != "scripted rs_1_0 "+thoughts+" rs_1_0" {
		t.Errorf("encrypted_content is %v", got)
	}
	checkUsage(t, a, DefaultUsage)
	if total := a.last().at("response", "usage", "total_tokens"); total != 168.0 {
		t.Errorf("%v tokens in total, want 168", total)
	}
}

func doneItems(a answer) func(func(object) bool) {
	return func(yield func(object) bool) {
		for _, e := range a.events {
			if e["type"] == "response.output_item.done" && !yield(object(e["item"].(map[string]any))) {
				return
			}
		}
	}
}

func checkUsage(t *testing.T, a answer, want Usage) {
	t.Helper()
	number := func(path ...string) int {
		n, _ := a.last().at(append([]string{"response", "usage"}, path...)...).(float64)
		return int(n)
	}
	got := Usage{
		number("input_tokens"), number("input_tokens_details", "cached_tokens"),
		number("output_tokens"), number("output_tokens_details", "reasoning_tokens"),
		number("input_tokens_details", "cache_write_tokens"),
	}
	if got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

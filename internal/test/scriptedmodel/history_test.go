package scriptedmodel

import (
	"testing"
)

func TestUserText(t *testing.T) {
	user := func(text string) object { return object{"type": "message", "role": "user", "content": text} }
	cases := []struct {
		name  string
		input any
		want  string
	}{
		{"a text", "hello", "hello"},
		{"none", []any{}, ""},
		{"no type", []any{object{"role": "user", "content": "hello"}}, "hello"},
		{"parts", []any{object{"role": "user", "content": []any{
			object{"type": "input_text", "text": "a"}, object{"type": "input_image", "image_url": "data:,"}, object{"type": "input_text", "text": "b"},
		}}}, "ab"},
		{"the last", []any{user("one"), object{"role": "assistant", "content": "x"}, user("two"), object{"role": "developer", "content": "y"}}, "two"},
		{"not Codex's own", []any{user("one"), user("<turn_aborted>\nIt was interrupted.\n</turn_aborted>"), user("<environment_context>x</environment_context>")}, "one"},
		{"a tag that begins the user's text", []any{user("<turn_aborted> what is that?")}, "<turn_aborted> what is that?"},
	}
	for _, c := range cases {
		if got := decoded(t, body("", object{"input": c.input})).UserText(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestToolResults(t *testing.T) {
	user := object{"role": "user", "content": "x"}
	call := object{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
	result := object{"type": "function_call_output", "call_id": "c", "output": "r"}
	effort := object{"type": "configuration_update", "reasoning": object{"effort": "low"}}
	cases := []struct {
		name  string
		input []any
		want  int
	}{
		{"none", []any{user}, 0},
		{"one", []any{user, call, result}, 1},
		{"calls, then results", []any{user, call, call, result, result}, 2},
		{"call by call", []any{user, call, result, call, result}, 2},
		{"new question", []any{user, call, result, user}, 0},
		{"of this question alone", []any{user, call, result, user, call, result}, 1},
		{"a call is open", []any{user, call, result, call}, 0},
		{"no question", []any{call, result}, 1},
		{"an effort behind them", []any{user, call, result, effort}, 1},
		{"an effort behind a question", []any{user, call, result, user, effort}, 0},
		{"an effort alone", []any{effort}, 0},
		{"nothing", []any{}, 0},
	}
	for _, c := range cases {
		if got := decoded(t, body("", object{"input": c.input})).ToolResults(); len(got) != c.want {
			t.Errorf("%s: %v, want %d", c.name, got, c.want)
		}
	}
}

// TestCompaction checks that a request for a summary is recognised by its metadata,
// or else by its prompt, and gets SummaryText.
func TestCompaction(t *testing.T) {
	const ask = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
	metadata := func(text string) object {
		return object{"client_metadata": object{"x-codex-turn-metadata": text}}
	}
	cases := []struct {
		name   string
		prompt string
		more   object
		want   bool
	}{
		{"told", "say:x", metadata(`{"request_kind":"compaction"}`), true},
		{"told otherwise", ask, metadata(`{"request_kind":"turn"}`), false},
		{"not told", ask, metadata(`{}`), true},
		{"unreadable", ask, metadata(`{`), true},
		{"by the prompt", ask, nil, true},
		{"no", "say:x", nil, false},
	}
	s := start(t)
	for _, c := range cases {
		if got := decoded(t, body(c.prompt, c.more)).IsCompaction(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got := s.prompt(c.prompt, c.more).text() == SummaryText; got != c.want {
			t.Errorf("%s: answered with a summary: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestClientTools checks that functions are found where old and new models get them.
func TestClientTools(t *testing.T) {
	for _, body := range []string{
		`{"tools":[{"type":"function","name":"f"},{"type":"web_search"},{"type":"function","name":"request_user_input"}]}`,
		`{"input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]}]}`,
		`{"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"functions","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}]}]}`,
	} {
		request, err := decode(nil, []byte(body), Delivery{})
		if tools := request.ClientTools(); err != nil || len(tools) != 1 || tools[0].Name != "f" {
			t.Errorf("%s: %+v, %v", body, tools, err)
		}
	}
}

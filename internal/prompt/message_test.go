package prompt_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// TestTooManyItems: what is tiny in the body is not here.
func TestTooManyItems(t *testing.T) {
	const one = `{"role":"user","content":"x"}`
	list := "[" + strings.Repeat(one+",", prompt.MaxItems) + one + "]"
	if _, apiErr := chat.Decode([]byte(`{"model":"m","messages":` + list + `}`)); apiErr == nil || apiErr.Param != "messages" {
		t.Error("too many messages:", apiErr)
	}
	if _, apiErr := responses.Decode([]byte(`{"model":"m","input":` + list + `}`)); apiErr == nil || apiErr.Param != "input" {
		t.Error("too many items:", apiErr)
	}
	parts := func(part string) string {
		return `[{"role":"user","content":[` + strings.Repeat(part+",", prompt.MaxItems) + part + `]}]`
	}
	if _, apiErr := chat.Decode([]byte(`{"model":"m","messages":` + parts(`{"type":"text","text":"x"}`) + `}`)); apiErr == nil || apiErr.Param != "messages[0].content" {
		t.Error("too many parts:", apiErr)
	}
	if _, apiErr := responses.Decode([]byte(`{"model":"m","input":` + parts(`{"type":"input_text","text":"x"}`) + `}`)); apiErr == nil || apiErr.Param != "input[0].content" {
		t.Error("too many parts of items:", apiErr)
	}
	const call = `{"id":"c","function":{"name":"f","arguments":""}}`
	if _, apiErr := chat.Decode([]byte(withMessages(`{"role":"assistant","tool_calls":[` + strings.Repeat(call+",", prompt.MaxItems) + call + `]}`))); apiErr == nil || apiErr.Param != "messages[0].tool_calls" {
		t.Error("too many calls:", apiErr)
	}
	const four = `{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"text","text":"z"}]}`
	list = "[" + strings.Repeat(four+",", prompt.MaxItems/4) + one + "]"
	if _, apiErr := chat.Decode([]byte(`{"model":"m","messages":` + list + `}`)); apiErr == nil || apiErr.Param != "messages" {
		t.Error("too many in all:", apiErr)
	}
	const tool = `{"type":"custom","name":"f"}`
	body := withInput(`{"type":"additional_tools","tools":[` + strings.Repeat(tool+",", prompt.MaxItems) + tool + `]}`)
	if _, apiErr := responses.Decode([]byte(body)); apiErr == nil || apiErr.Param != "input[0].tools" {
		t.Error("too many tools:", apiErr)
	}
	earlier := make([]json.RawMessage, prompt.MaxItems)
	for i := range earlier {
		earlier[i] = json.RawMessage(one)
	}
	r, apiErr := responses.Decode([]byte(`{"model":"m","previous_response_id":"r","input":` + "[" + one + `]}`))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	if apiErr := r.Resolve(earlier, nil); apiErr == nil || apiErr.Param != "previous_response_id" {
		t.Error("too many items before:", apiErr)
	}
	list = "[" + strings.Repeat(one+",", prompt.MaxItems-1) + one + "]"
	if _, apiErr := chat.Decode([]byte(`{"model":"m","messages":` + list + `}`)); apiErr != nil {
		t.Error("as many as may be:", apiErr)
	}
}

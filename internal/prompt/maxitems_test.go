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
	if _, refusal := chat.Decode([]byte(`{"model":"m","messages":` + list + `}`)); refusal == nil || refusal.Param != "messages" {
		t.Error("too many messages:", refusal)
	}
	if _, refusal := responses.Decode([]byte(`{"model":"m","input":` + list + `}`)); refusal == nil || refusal.Param != "input" {
		t.Error("too many items:", refusal)
	}
	parts := func(part string) string {
		return `[{"role":"user","content":[` + strings.Repeat(part+",", prompt.MaxItems) + part + `]}]`
	}
	if _, refusal := chat.Decode([]byte(`{"model":"m","messages":` + parts(`{"type":"text","text":"x"}`) + `}`)); refusal == nil || refusal.Param != "messages[0].content" {
		t.Error("too many parts:", refusal)
	}
	if _, refusal := responses.Decode([]byte(`{"model":"m","input":` + parts(`{"type":"input_text","text":"x"}`) + `}`)); refusal == nil || refusal.Param != "input[0].content" {
		t.Error("too many parts of items:", refusal)
	}
	const call = `{"id":"c","function":{"name":"f","arguments":""}}`
	if _, refusal := chat.Decode([]byte(withMessages(`{"role":"assistant","tool_calls":[` + strings.Repeat(call+",", prompt.MaxItems) + call + `]}`))); refusal == nil || refusal.Param != "messages[0].tool_calls" {
		t.Error("too many calls:", refusal)
	}
	const four = `{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"text","text":"z"}]}`
	list = "[" + strings.Repeat(four+",", prompt.MaxItems/4) + one + "]"
	if _, refusal := chat.Decode([]byte(`{"model":"m","messages":` + list + `}`)); refusal == nil || refusal.Param != "messages" {
		t.Error("too many in all:", refusal)
	}
	const tool = `{"type":"custom","name":"f"}`
	body := withInput(`{"type":"additional_tools","tools":[` + strings.Repeat(tool+",", prompt.MaxItems) + tool + `]}`)
	if _, refusal := responses.Decode([]byte(body)); refusal == nil || refusal.Param != "input[0].tools" {
		t.Error("too many tools:", refusal)
	}
	earlier := make([]json.RawMessage, prompt.MaxItems)
	for i := range earlier {
		earlier[i] = json.RawMessage(one)
	}
	r, refusal := responses.Decode([]byte(`{"model":"m","previous_response_id":"r","input":` + "[" + one + `]}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	if refusal := r.Resolve(earlier, nil); refusal == nil || refusal.Param != "previous_response_id" {
		t.Error("too many items before:", refusal)
	}
	list = "[" + strings.Repeat(one+",", prompt.MaxItems-1) + one + "]"
	if _, refusal := chat.Decode([]byte(`{"model":"m","messages":` + list + `}`)); refusal != nil {
		t.Error("as many as may be:", refusal)
	}
}

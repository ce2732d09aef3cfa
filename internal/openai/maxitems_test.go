package openai

import (
	"strings"
	"testing"
)

// TestTooManyItems: what is tiny in the body is not here.
func TestTooManyItems(t *testing.T) {
	const one = `{"role":"user","content":"x"}`
	list := "[" + strings.Repeat(one+",", maxItems) + one + "]"
	if _, refusal := DecodeChat([]byte(`{"model":"m","messages":` + list + `}`)); refusal == nil || refusal.Param != "messages" {
		t.Error("too many messages:", refusal)
	}
	if _, refusal := DecodeResponse([]byte(`{"model":"m","input":` + list + `}`)); refusal == nil || refusal.Param != "input" {
		t.Error("too many items:", refusal)
	}
	list = "[" + strings.Repeat(one+",", maxItems-1) + one + "]"
	if _, refusal := DecodeChat([]byte(`{"model":"m","messages":` + list + `}`)); refusal != nil {
		t.Error("as many as may be:", refusal)
	}
}

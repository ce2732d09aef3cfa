package aggregator

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzToolCall: a <tool_call> block is read as encoding/json reads its object.
func FuzzToolCall(f *testing.F) {
	for _, text := range []string{
		`{"name":" f ","arguments":{"a": 1}}`, `{"name":"f","arguments":"{\"a\": \"\\u00e9\"}"}`, `{"name":"f","arguments":null,"id":7,"type":[]}`,
		`{"name":"f","parameters":{}}`, `{"n\u0061me":"f"}`, `{"name":"f"}{}`, `["name","f"]`, `{"name":null,"arguments":"x"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		name, arguments, err := ToolCall{}.Parse(toolCallOpener + text + toolCallCloser)
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &members) != nil || members == nil {
			if err == nil {
				t.Fatalf("%q is the call %s %s", text, name, arguments)
			}
			return
		}
		if decoder := json.NewDecoder(strings.NewReader(text)); twice(decoder) {
			return // which of the two is read does not matter
		}
		var wantName, wantArguments string
		ok := members["name"] != nil && json.Unmarshal(members["name"], &wantName) == nil && strings.TrimSpace(wantName) != ""
		if given := members["arguments"]; json.Unmarshal(given, &wantArguments) != nil {
			wantArguments = string(given)
		}
		if wantArguments = strings.TrimSpace(wantArguments); wantArguments == "" || wantArguments == "null" {
			wantArguments = "{}"
		}
		for member := range members {
			ok = ok && (member == "name" || member == "arguments" || member == "id" || member == "type")
		}
		ok = ok && wantArguments[0] == '{'
		if ok != (err == nil) || ok && (name != strings.TrimSpace(wantName) || arguments != wantArguments) {
			t.Fatalf("%q is the call %q %q, %v; want %q %q", text, name, arguments, err, wantName, wantArguments)
		}
	})
}

// twice reports whether a member of an object occurs twice.
func twice(object *json.Decoder) bool {
	seen := map[any]bool{}
	_, _ = object.Token()
	for object.More() {
		name, err := object.Token()
		if err != nil || seen[name] || object.Decode(new(json.RawMessage)) != nil {
			return true
		}
		seen[name] = true
	}
	return false
}

package codexrpc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func sameJSON(t *testing.T, got, want []byte) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	must.OK(t, json.Unmarshal(want, &b))
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if string(x) != string(y) {
		t.Errorf("encoded\n%s instead of\n%s", x, y)
	}
}

// TestEncodeCalls checks that the calls of a turn are encoded as encoding/json does.
func TestEncodeCalls(t *testing.T) {
	text, empty := "a \"b\" \\ <c> & \n\t\x00 é 👋 \u2028", ""
	type userInput struct {
		Type         string      `json:"type"`
		Text         string      `json:"text,omitempty"`
		TextElements *[]struct{} `json:"text_elements,omitempty"`
		URL          string      `json:"url,omitempty"`
		Detail       string      `json:"detail,omitempty"`
	}
	for _, params := range []ThreadStartParams{
		{},
		{
			Model: "m", ServiceTier: "flex", BaseInstructions: &text, DeveloperInstructions: text, Cwd: "/a b", ApprovalPolicy: "never",
			Sandbox: "read-only", Ephemeral: true, ExperimentalRawEvents: true, Environments: []struct{}{},
			Config: Config{Fixed: `"agents":{"enabled":false}`, Place: `"model_provider":"p"`, Own: map[string]any{
				"b": map[string]any{"y": true, "x": 1, "z": map[string]any(nil)}, "a": []string{"l"}, "c": int64(1) << 40, "d": text,
				"e": nil, "f": 1.5, text: "g", "h": json.RawMessage(`{"i": [1]}`),
			}},
			DynamicTools: []DynamicTool{{Type: "function", Name: "n", Description: text, InputSchema: json.RawMessage(`{"type": "object"}`)}},
		},
		{BaseInstructions: &empty, Config: Config{Own: map[string]any{}}},
		{Config: Config{Place: `"p":1`, Own: map[string]any{"q": 2}}},
	} {
		want, err := encode(outgoing{ID: json.RawMessage("7"), Method: methodThreadStart, Params: params})
		must.OK(t, err)
		got, err := encodeCall(7, methodThreadStart, &params)
		must.OK(t, err)
		sameJSON(t, got, want)
	}
	got, err := encodeCall(8, methodTurnStart, &TurnStartParams{ThreadID: "t", Effort: "high", OutputSchema: json.RawMessage("{\n}"), Input: []UserInput{
		{Type: "text", Text: text}, {Type: "image", URL: "data:x"}, {Type: "image", URL: "data:y", Detail: "high"},
	}})
	must.OK(t, err)
	want, err := json.Marshal(map[string]any{"id": 8, "method": methodTurnStart, "params": map[string]any{
		"threadId": "t", "effort": "high", "outputSchema": map[string]any{}, "input": []userInput{
			{Type: "text", Text: text, TextElements: &[]struct{}{}}, {Type: "image", URL: "data:x"}, {Type: "image", URL: "data:y", Detail: "high"},
		},
	}})
	must.OK(t, err)
	sameJSON(t, got, want)
	if strings.Contains(string(got), "\n") {
		t.Errorf("%q is more than one line", got)
	}
	for _, broken := range []any{
		&TurnStartParams{OutputSchema: json.RawMessage("{")},
		&ThreadStartParams{Config: Config{Own: map[string]any{"x": func() {}}}},
		&ThreadStartParams{DynamicTools: []DynamicTool{{InputSchema: json.RawMessage("}")}}},
	} {
		if _, err := encodeCall(9, "m", broken); err == nil {
			t.Errorf("%+v was encoded", broken)
		}
	}
}

func BenchmarkEncodeStart(b *testing.B) {
	instructions := "You are a helpful assistant."
	params := ThreadStartParams{Model: "gpt-5", BaseInstructions: &instructions, Config: Config{Fixed: `"limit":1`, Own: map[string]any{
		"web_search": "disabled", "features": map[string]any{"apps": false, "hooks": false},
	}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeCall(1, methodThreadStart, &params); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeTurn(b *testing.B) {
	text := strings.Repeat("A line of a note, with \"quotes\".\n", 7000)
	params := TurnStartParams{ThreadID: "t", Input: []UserInput{{Type: "text", Text: text}}}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeCall(1, methodTurnStart, &params); err != nil {
			b.Fatal(err)
		}
	}
}

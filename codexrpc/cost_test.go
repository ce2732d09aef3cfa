package codexrpc

import (
	"strings"
	"testing"
)

// BenchmarkEncodeStart encodes thread/start.
func BenchmarkEncodeStart(b *testing.B) {
	instructions := "You are a helpful assistant."
	params := ThreadStartParams{Model: "gpt-5", BaseInstructions: &instructions, Config: Config{Fixed: `"limit":1`, Own: map[string]any{
		"web_search": "disabled", "features": map[string]any{"apps": false, "hooks": false},
	}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeCall(nil, 1, methodThreadStart, &params); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeTurn encodes turn/start with a long prompt.
func BenchmarkEncodeTurn(b *testing.B) {
	text := strings.Repeat("A line of a note, with \"quotes\".\n", 7000)
	params := TurnStartParams{ThreadID: "t", Input: []UserInput{{Type: "text", Text: text}}}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := encodeCall(nil, 1, methodTurnStart, &params); err != nil {
			b.Fatal(err)
		}
	}
}

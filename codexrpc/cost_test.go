package codexrpc

import (
	"strings"
	"testing"
)

// TestCallAllocations checks that the calls of a turn are written into one buffer: no part
// of them is encoded apart, however long it is.
func TestCallAllocations(t *testing.T) {
	instructions := strings.Repeat("Be \"brief\".\n", 100)
	start := ThreadStartParams{
		Model: "gpt-5", BaseInstructions: &instructions, Sandbox: "read-only", Environments: []struct{}{},
		Config: Config{Fixed: `"limit":1`, Own: map[string]any{"web_search": "disabled", "features": map[string]any{"apps": false, "hooks": false}}},
	}
	turn := TurnStartParams{ThreadID: "t", Input: []UserInput{{Type: "text", Text: strings.Repeat("word ", 50_000)}}}
	for method, c := range map[string]struct {
		params any
		most   float64
	}{
		methodThreadStart: {&start, 3}, // the line, and one more for a long one
		methodTurnStart:   {&turn, 2},  // the line, and the line's end
	} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := encodeCall(nil, 1, method, c.params); err != nil {
				t.Fatal(err)
			}
		}); n > c.most {
			t.Errorf("%s: %v allocations, want %v at most", method, n, c.most)
		}
	}
}

// TestJoinedDeltaAllocations checks that deltas that wait together take a copy of their
// text and nothing for each.
func TestJoinedDeltaAllocations(t *testing.T) {
	const deltas = 100
	c := newTestConn()
	thread := openTestTurn(c, benchThread, benchTurn)
	line := []byte(benchDelta("word "))
	var events []Event
	allocs := testing.AllocsPerRun(100, func() {
		for range deltas {
			c.dispatch(line)
		}
		events, _ = thread.Recv()
	})
	if len(events) != 1 || len(events[0].Text) != deltas*len("word ") || allocs > 2 {
		t.Errorf("%d events, %v allocations for %d deltas", len(events), allocs, deltas)
	}
}

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

package turn

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// lessThans is text of size bytes with n times "<", in deltas of a token's
// size.
func lessThans(size, n int) []codexrpc.Event {
	piece := "<" + strings.Repeat("a", size/n-1)
	text := strings.Repeat(piece, n)
	events := make([]codexrpc.Event, 0, len(text)/16+1)
	for len(text) > 0 {
		k := min(16, len(text))
		events = append(events, delta("msg_1", text[:k]))
		text = text[k:]
	}
	return events
}

// consumeAll feeds events one by one, and counts the bytes of text.
func consumeAll(m *Machine, events []codexrpc.Event) (bytes int) {
	for i := range events {
		for _, o := range m.Feed(events[i : i+1]) {
			bytes += len(o.Text)
		}
	}
	return bytes
}

// TestCostOfText: a delta costs one allocation at most, and twice the text with
// twice the deltas costs twice as many.
func TestCostOfText(t *testing.T) {
	for name, opts := range map[string]Options{
		"plain":     {},
		"JSON":      {ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}},
		"XML":       {ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}},
		"the tail":  {ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML}},
		"not taken": {ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}, AcceptTextual: func(string) bool { return false }},
		"the cuts":  {StopSequences: []string{"<aab", "STOP"}, MaxTokens: 1 << 30},
	} {
		var perDelta [2]float64
		for i, size := range []int{100_000, 200_000} {
			events := append([]codexrpc.Event{delta("msg_1", block("1"))}, lessThans(size, size/100)...)
			allocs := testing.AllocsPerRun(1, func() { consumeAll(New(&opts), events) })
			perDelta[i] = allocs / float64(len(events))
		}
		if perDelta[0] > 1 || perDelta[1] > 1.1*perDelta[0] {
			t.Errorf("%s: %.2f allocations for a delta, %.2f in twice the text", name, perDelta[0], perDelta[1])
		}
	}
}

// TestMemoryOfText: what a machine holds does not grow with the text, however
// much of it looks like the beginning of a block.
func TestMemoryOfText(t *testing.T) {
	for _, filling := range []string{"<" + strings.Repeat("a", 99), "<", "<use_tool", "<use_tool>", "</use_tool>"} {
		const size = 2_000_000
		piece := strings.Repeat(filling, 1000/len(filling))
		m := New(&Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}})
		before := heap()
		got := 0
		for range size / len(piece) {
			got += consumeAll(m, []codexrpc.Event{delta("m", piece)})
		}
		after := heap()
		if got < size-3*len(piece) {
			t.Errorf("%q: %d bytes came out", filling, got)
		}
		if after > before+1<<20 {
			t.Errorf("%q: the machine holds %d bytes", filling, after-before)
		}
		runtime.KeepAlive(m)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// structuredCalls is a turn of n calls with large arguments, and its end.
func structuredCalls(n int) []codexrpc.Event {
	arguments := `{"list":[` + strings.Repeat(`{"key":"value"},`, 2000) + `0]}`
	var events []codexrpc.Event
	for i := range n {
		events = append(events, call("call_"+strconv.Itoa(i), "find", arguments))
	}
	return append(events, codexrpc.Event{Kind: codexrpc.EventResponseCompleted})
}

// BenchmarkStructuredCalls is a turn of 50 structured calls.
func BenchmarkStructuredCalls(b *testing.B) {
	events := structuredCalls(50)
	b.SetBytes(int64(50 * len(events[0].Text)))
	b.ReportAllocs()
	for b.Loop() {
		consumeAll(New(&Options{}), events)
	}
}

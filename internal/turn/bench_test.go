package turn

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
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

// BenchmarkLessThan is 10 MB of text with 100,000 times "<", in both modes.
func BenchmarkLessThan(b *testing.B) {
	for _, mode := range []Mode{ModeJSON, ModeXML} {
		b.Run(string(mode), func(b *testing.B) {
			events := lessThans(10_000_000, 100_000)
			b.SetBytes(10_000_000)
			b.ReportAllocs()
			for b.Loop() {
				consumeAll(New(&Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: mode, SuppressTailAfterTools: keepTail}}), events)
			}
			b.ReportMetric(float64(len(events)), "deltas/op")
		})
	}
}

// BenchmarkBlocks is a turn of 1,000 blocks in deltas of a few bytes.
func BenchmarkBlocks(b *testing.B) {
	text := strings.Repeat(block("a rather long value of the parameter")+"\n", 1000)
	events := said("m", text, 7)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		consumeAll(New(&Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}), events)
	}
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

// BenchmarkCuts is a plain turn of words, with stop sequences that are never
// complete, and with limits: one too far to be counted, one that has to be
// counted, and one that is reached.
func BenchmarkCuts(b *testing.B) {
	tokens.Count("") // the vocabulary is loaded
	text := strings.Repeat("It is a text, with some words; and a line break. <b>\n\n", 2000)
	events := said("msg_1", text, 5)
	stops := []string{"\n\nHuman:", "</answer>", "STOP", "<|end|>"}
	for _, c := range []struct {
		name string
		opts Options
	}{
		{"off", Options{}},
		{"stop", Options{StopSequences: stops[:1]}},
		{"4 stops", Options{StopSequences: stops}},
		{"limit passing", Options{MaxTokens: len(text)}},
		{"limit counting", Options{MaxTokens: len(text) / 3}},
		{"limit reached", Options{MaxTokens: len(text) / 6}},
		{"all", Options{StopSequences: stops, MaxTokens: len(text), ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				consumeAll(New(&c.opts), events)
			}
			b.ReportMetric(float64(len(events)), "deltas/op")
		})
	}
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

package turn

import (
	"maps"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestReport: each begun block is flushed or aborted for its reason, and the
// text of an aborted one is not lost.
func TestReport(t *testing.T) {
	const open = "<use_tool><name>find</name>"
	declared := func(name string) bool { return name == "find" }
	for name, c := range map[string]struct {
		text    string
		end     func(m *Machine) []Output // nil: the turn completes
		started int
		flushed int
		reason  usetool.AbortReason
	}{
		"flushed":      {block("1") + block("2"), nil, 2, 2, ""},
		"nested":       {open + block("1"), nil, 2, 1, usetool.AbortNested},
		"malformed":    {"<use_tool></use_tool>" + block("1"), nil, 2, 1, usetool.AbortMalformed},
		"too large":    {open + strings.Repeat("x", aggregator.DefaultMaxBlock), nil, 1, 0, usetool.AbortTooLarge},
		"unclosed":     {block("1") + open, nil, 2, 1, usetool.AbortUnclosed},
		"undeclared":   {strings.ReplaceAll(block("1"), "find", "seek"), nil, 1, 0, aggregator.AbortUndeclared},
		"interrupted":  {open, func(m *Machine) []Output { return m.Feed([]codexrpc.Event{ended(codexrpc.StatusInterrupted, nil)}) }, 1, 0, usetool.AbortInterrupted},
		"failed":       {open, func(m *Machine) []Output { return m.Feed([]codexrpc.Event{ended(codexrpc.StatusFailed, nil)}) }, 1, 0, usetool.AbortError},
		"lost":         {open, func(m *Machine) []Output { return m.Fail(codexrpc.ErrClosed) }, 1, 0, usetool.AbortError},
		"disconnected": {open, (*Machine).Abandon, 1, 0, usetool.AbortDisconnect},
		// Only the end of the text says that this one is a block.
		"disconnected within JSON": {brokenBlock, (*Machine).Abandon, 1, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(&Options{AcceptTextual: declared, ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}})
			text := "before " + c.text
			var all answer
			all.add(m.Feed([]codexrpc.Event{delta("m", text)}))
			if c.end == nil {
				c.end = func(m *Machine) []Output { return m.Feed([]codexrpc.Event{completed}) }
			}
			all.add(c.end(m))
			if content := all.text.String(); content != text || !m.Done() {
				t.Errorf("of %.200q the client got %.200q, done %t", text, content, m.Done())
			}
			got, want := m.Report(), map[usetool.AbortReason]int{c.reason: 1}
			if c.reason == "" {
				want = nil
			}
			if got.Started != c.started || got.Flushed != c.flushed || !maps.Equal(got.Aborted, want) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestNames: a client gets its own names of tools, whichever the model uses. A
// block that the model wrote stays as it is.
func TestNames(t *testing.T) {
	opts := Options{ClientName: func(name string) (string, bool) { return strings.CutPrefix(name, "codex_") }, ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}
	theirs := strings.Replace(block("1"), "find", "codex_find", 1)
	outputs := New(&opts).Feed([]codexrpc.Event{delta("m", theirs+block("2")), call("a", "codex_find", `{"q":"3"}`), completed})
	if got := told(outputs); got != written("«"+theirs+"»{0:1}«[2]»{1:2}«(3)»{2:3}|tool_calls") || strings.Count(say(outputs), " find {") != 3 {
		t.Error(say(outputs))
	}
}

// TestLostAtTheLimit: when the connection is lost while only the usage is missing, nothing is.
func TestLostAtTheLimit(t *testing.T) {
	m := New(&Options{ToolOptions: ToolOptions{ToolBlockMax: 1, SuppressTailAfterTools: keepTail}})
	m.Feed([]codexrpc.Event{
		call("a", "find", `{"q":"1"}`), call("b", "find", `{"q":"2"}`),
		{Kind: codexrpc.EventTokenUsage, Usage: &codexrpc.Usage{TotalTokens: 9, InputTokens: 9}},
	})
	if got := say(m.Fail(codexrpc.ErrClosed)); got != "finish tool_calls 9\n" {
		t.Error(got)
	}
}

// TestLongTail: a tail that outgrows its bound goes out, all of it and however
// it was cut; so does white space that nothing visible follows.
func TestLongTail(t *testing.T) {
	for _, filling := range []string{"tail ", "\n"} {
		tail := strings.Repeat(filling, maxWithheld/len(filling)+10)
		text := block("1") + tail + block("2") + "short"
		for _, size := range []int{1000, maxWithheld - 1, len(text)} {
			opts := Options{ToolOptions: ToolOptions{TextualTools: TextualOn}}
			outputs, report := run(opts, append(said("m", text, size), completed), oneByOne)
			got := told(outputs)
			if want := "{0:1}" + tail + "{1:2}|tool_calls"; got != want || report.TailBytes != len("short") {
				t.Errorf("%q in deltas of %d: %d bytes told, want %d; %d suppressed", filling, size, len(got), len(want), report.TailBytes)
			}
		}
	}
	// One byte less, and it is held to the end.
	tail := strings.Repeat("x", maxWithheld)
	outputs, report := run(Options{ToolOptions: ToolOptions{TextualTools: TextualOn}}, append(said("m", block("1")+tail, 999), completed), atOnce)
	if got := told(outputs); got != "{0:1}|tool_calls" || report.TailBytes != maxWithheld {
		t.Errorf("%.100q, %d bytes suppressed", got, report.TailBytes)
	}
}

// TestCallsAreBounded: the calls of a turn and what is remembered of them.
func TestCallsAreBounded(t *testing.T) {
	var events []codexrpc.Event
	for i := range 3 * aggregator.DefaultMaxCalls {
		id := string(rune('a' + i))
		events = append(events, call(id, "find", `{"q":"`+id+`"}`))
	}
	outputs, report := run(Options{}, append(events, response(1)), atOnce)
	if report.Calls != aggregator.DefaultMaxCalls || !report.Truncated || !strings.HasSuffix(told(outputs), "|tool_calls") {
		t.Errorf("%+v", report)
	}
}

package turn

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// block is a call of find as a model writes it.
func block(q string) string {
	return "<use_tool><name>find</name><q>" + q + "</q></use_tool>"
}

// written expands [x] to a block that the model wrote, and (x) to one that is
// made of a structured call.
func written(text string) string {
	for _, q := range []string{"1", "2", "3", "4", "5"} {
		text = strings.ReplaceAll(text, "["+q+"]", block(q))
		text = strings.ReplaceAll(text, "("+q+")", "<use_tool>\n<name>find</name>\n<q>"+q+"</q>\n</use_tool>")
	}
	return text
}

// told gives outputs as one line: texts as they are, a call as {index:query},
// the end behind a bar. Pieces of text are joined, but a block in a text of its
// own is marked by «».
func told(outputs []Output) string {
	var b strings.Builder
	for _, o := range outputs {
		switch o.Kind {
		case OutputText:
			if strings.HasPrefix(o.Text, "<use_tool>") && strings.HasSuffix(o.Text, "</use_tool>") {
				o.Text = "«" + o.Text + "»"
			}
			b.WriteString(o.Text)
		case OutputReasoning:
			b.WriteString("~" + o.Text + "~")
		case OutputCall:
			fmt.Fprintf(&b, "{%d", o.Call)
			if o.Text != "" {
				b.WriteString(":" + strings.TrimSuffix(strings.TrimPrefix(o.Text, `{"q":"`), `"}`))
			}
			b.WriteString("}")
		case OutputFinish:
			b.WriteString("|" + string(o.End.Finish))
		case OutputFailure:
			b.WriteString("|failure")
		}
	}
	return b.String()
}

// run tells what a machine makes of events, in batches of any size.
func run(opts Options, events []codexrpc.Event, cut func(left int) int) (string, Report) {
	m := New(&opts)
	var outputs []Output
	for len(events) > 0 {
		n := cut(len(events))
		outputs = append(outputs, m.Feed(events[:n])...)
		events = events[n:]
	}
	return told(outputs), m.Report()
}

// said is a whole message, in deltas of size bytes.
func said(item, text string, size int) []codexrpc.Event {
	var events []codexrpc.Event
	for rest := text; rest != ""; {
		n := min(size, len(rest))
		events = append(events, delta(item, rest[:n]))
		rest = rest[n:]
	}
	return append(events, whole(item, text))
}

// keepTail is the value of SuppressTailAfterTools that is not the default.
var keepTail = new(false)

// policyCase is one setting, and what it makes of the same calls as text and
// as structured calls, in both modes. Text: "Look. [1] and [2]\n[3][3] Done."
// Structured: a message "Look.", calls 1, 2, 3, 3, the end of the response, and
// a message "Late." that a turn may have only if nothing stops it.
type policyCase struct {
	opts                                   Options
	jsonText, xmlText, jsonCalls, xmlCalls string
}

var policyCases = map[string]policyCase{
	"burst": {
		Options{},
		"Look. {0:1} and {1:2}{2:3}{3:3}|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3}|tool_calls",
		"Look.{0:1}{1:2}{2:3}{3:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"burst, with the tail": {
		Options{ToolOptions: ToolOptions{SuppressTailAfterTools: keepTail}},
		"Look. {0:1} and {1:2}{2:3}{3:3} Done.|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3} Done.|tool_calls",
		"Look.{0:1}{1:2}{2:3}{3:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"first": {
		Options{ToolOptions: ToolOptions{StopAfterTools: StopFirst, SuppressTailAfterTools: keepTail}},
		"Look. {0:1}|tool_calls",
		"Look. «[1]»{0:1}|tool_calls",
		"Look.{0:1}|tool_calls",
		"Look.«(1)»{0:1}|tool_calls",
	},
	"off": {
		Options{ToolOptions: ToolOptions{StopAfterTools: StopOff, SuppressTailAfterTools: keepTail}},
		"Look. {0:1} and {1:2}{2:3}{3:3} Done.\n\nLate.|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3} Done.\n\nLate.|tool_calls",
		"Look.{0:1}{1:2}{2:3}{3:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"off, without the tail": {
		Options{ToolOptions: ToolOptions{StopAfterTools: StopOff}},
		"Look. {0:1} and {1:2}{2:3}{3:3}|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3}|tool_calls",
		"Look.{0:1}{1:2}{2:3}{3:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"two at most": {
		Options{ToolOptions: ToolOptions{ToolBlockMax: 2}},
		"Look. {0:1} and {1:2}|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}|tool_calls",
		"Look.{0:1}{1:2}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}|tool_calls",
	},
	"two at most, with the tail": {
		Options{ToolOptions: ToolOptions{ToolBlockMax: 2, SuppressTailAfterTools: keepTail}},
		"Look. {0:1} and {1:2}|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n|tool_calls",
		"Look.{0:1}{1:2}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}|tool_calls",
	},
	"the legacy single call": {
		Options{ToolOptions: ToolOptions{StopAfterTools: StopFirst, ToolBlockMax: 1}},
		"Look. {0:1}|tool_calls",
		"Look. «[1]»{0:1}|tool_calls",
		"Look.{0:1}|tool_calls",
		"Look.«(1)»{0:1}|tool_calls",
	},
	"dedup": {
		Options{ToolOptions: ToolOptions{ToolBlockDedup: true}},
		"Look. {0:1} and {1:2}{2:3}|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}|tool_calls",
		"Look.{0:1}{1:2}{2:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}|tool_calls",
	},
	"a delimiter": {
		Options{ToolOptions: ToolOptions{ToolBlockDelimiter: "--"}},
		"Look. {0:1} and {1:2}{2:3}{3:3}|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n--«[3]»{2:3}--«[3]»{3:3}|tool_calls",
		"Look.{0:1}{1:2}{2:3}{3:3}|tool_calls",
		"Look.«(1)»{0:1}--«(2)»{1:2}--«(3)»{2:3}--«(3)»{3:3}|tool_calls",
	},
	"a delimiter, with the tail": {
		Options{ToolOptions: ToolOptions{ToolBlockDelimiter: "--", SuppressTailAfterTools: keepTail}},
		"Look. {0:1} and {1:2}{2:3}{3:3} Done.|tool_calls",
		"Look. «[1]»{0:1} and «[2]»{1:2}\n--«[3]»{2:3}--«[3]»{3:3} Done.|tool_calls",
		"Look.{0:1}{1:2}{2:3}{3:3}|tool_calls",
		"Look.«(1)»{0:1}--«(2)»{1:2}--«(3)»{2:3}--«(3)»{3:3}|tool_calls",
	},
}

// TestPolicies: every setting, in both forms and both modes, at every split
// point and at several sizes of deltas.
func TestPolicies(t *testing.T) {
	structured := append(said("m", "Look.", 99),
		call("a", "find", `{"q":"1"}`), call("b", "find", `{"q":"2"}`), call("c", "find", `{"q":"3"}`), call("d", "find", `{"q":"3"}`),
		response(7), delta("n", "Late."), completed)
	text := written("Look. [1] and [2]\n[3][3] Done.")
	after := append([]codexrpc.Event{response(7)}, append(said("n", "Late.", 2), completed)...)
	for name, c := range policyCases {
		t.Run(name, func(t *testing.T) {
			c.opts.TextualTools = TextualOn
			for mode, want := range map[Mode][2]string{ModeJSON: {c.jsonText, c.jsonCalls}, ModeXML: {c.xmlText, c.xmlCalls}} {
				c.opts.OutputMode = mode
				for _, size := range []int{1, 2, 3, 5, 7, 8, len(text)} {
					checkRun(t, c.opts, append(said("m", text, size), after...), want[0])
				}
				// Two deltas leave little to how they are batched.
				for split := 1; split < len(text); split++ {
					events := append([]codexrpc.Event{delta("m", text[:split]), delta("m", text[split:]), whole("m", text)}, after...)
					checkBatched(t, c.opts, events, oneByOne, want[0])
				}
				checkRun(t, c.opts, structured, want[1])
			}
		})
	}
}

// checkRun feeds events in batches of every kind.
func checkRun(t *testing.T, opts Options, events []codexrpc.Event, want string) {
	t.Helper()
	for _, cut := range batchings {
		checkBatched(t, opts, events, cut, want)
	}
}

// checkBatched feeds events in batches.
func checkBatched(t *testing.T, opts Options, events []codexrpc.Event, cut func(left int) int, want string) {
	t.Helper()
	got, report := run(opts, events, cut)
	if want := written(want); got != want {
		t.Fatalf("%s, %d events:\ngot  %s\nwant %s", opts.OutputMode, len(events), got, want)
	}
	checkReport(t, opts, got, report)
}

// toldCall is the beginning of a call, as told writes it.
var toldCall = regexp.MustCompile(`\{[0-9]`)

// checkReport compares a report with what was told.
func checkReport(t *testing.T, opts Options, got string, report Report) {
	t.Helper()
	aborted := 0
	for _, n := range report.Aborted {
		aborted += n
	}
	if report.Started != report.Flushed+aborted {
		t.Errorf("%d blocks started, %d flushed, aborted %v", report.Started, report.Flushed, report.Aborted)
	}
	if n := len(toldCall.FindAllString(got, -1)); report.Calls != n {
		t.Errorf("%d calls reported, %d told: %s", report.Calls, n, got)
	}
	if opts.ToolBlockMax == 2 && !report.Truncated {
		t.Error("not truncated:", got)
	}
}

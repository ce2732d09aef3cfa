package turn

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
)

func block(q string) string {
	return "<use_tool><name>find</name><q>" + q + "</q></use_tool>"
}

// written expands [x] to a block that the model wrote, and (x) to one that is made of a structured call.
func written(text string) string {
	for _, q := range []string{"1", "2", "3", "4", "5"} {
		text = strings.ReplaceAll(text, "["+q+"]", block(q))
		text = strings.ReplaceAll(text, "("+q+")", "<use_tool>\n<name>find</name>\n<q>"+q+"</q>\n</use_tool>")
	}
	return text
}

// told gives outputs as one line: texts as they are, a call as {index:query}, the end behind a bar.
// Pieces of text are joined, but a block in a text of its own is marked by «».
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

// policyCase is one setting, and what it makes in ModeXML of the same calls as text and as structured
// calls. Text: "Look. [1] and [2]\n[3][3] Done." Structured: a message "Look.", calls 1, 2, 3, 3, the
// end of the response, and a message "Late." that a turn may have only if nothing stops it.
type policyCase struct {
	opts        ToolOptions
	text, calls string
}

var policyCases = map[string]policyCase{
	"burst": {
		ToolOptions{},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"burst, with the tail": {
		ToolOptions{SuppressTailAfterTools: keepTail},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3} Done.|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"first": {
		ToolOptions{StopAfterTools: StopFirst, SuppressTailAfterTools: keepTail},
		"Look. «[1]»{0:1}|tool_calls",
		"Look.«(1)»{0:1}|tool_calls",
	},
	"off": {
		ToolOptions{StopAfterTools: StopOff, SuppressTailAfterTools: keepTail},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3} Done.\n\nLate.|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"off, without the tail": {
		ToolOptions{StopAfterTools: StopOff},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}«[3]»{3:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}«(3)»{3:3}|tool_calls",
	},
	"two at most": {
		ToolOptions{ToolBlockMax: 2},
		"Look. «[1]»{0:1} and «[2]»{1:2}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}|tool_calls",
	},
	"two at most, with the tail": {
		ToolOptions{ToolBlockMax: 2, SuppressTailAfterTools: keepTail},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}|tool_calls",
	},
	"the legacy single call": {
		ToolOptions{StopAfterTools: StopFirst, ToolBlockMax: 1},
		"Look. «[1]»{0:1}|tool_calls",
		"Look.«(1)»{0:1}|tool_calls",
	},
	"dedup": {
		ToolOptions{ToolBlockDedup: true},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n«[3]»{2:3}|tool_calls",
		"Look.«(1)»{0:1}«(2)»{1:2}«(3)»{2:3}|tool_calls",
	},
	"a delimiter": {
		ToolOptions{ToolBlockDelimiter: "--"},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n--«[3]»{2:3}--«[3]»{3:3}|tool_calls",
		"Look.«(1)»{0:1}--«(2)»{1:2}--«(3)»{2:3}--«(3)»{3:3}|tool_calls",
	},
	"a delimiter, with the tail": {
		ToolOptions{ToolBlockDelimiter: "--", SuppressTailAfterTools: keepTail},
		"Look. «[1]»{0:1} and «[2]»{1:2}\n--«[3]»{2:3}--«[3]»{3:3} Done.|tool_calls",
		"Look.«(1)»{0:1}--«(2)»{1:2}--«(3)»{2:3}--«(3)»{3:3}|tool_calls",
	},
}

var (
	toldBlock    = regexp.MustCompile("«[^»]*»")
	betweenCalls = regexp.MustCompile(`\}(?:\n|--)+([{|])`)
)

// inJSON returns what ModeJSON makes of a turn: calls without blocks, white space and delimiters between.
func inJSON(want string) string {
	return betweenCalls.ReplaceAllString(toldBlock.ReplaceAllString(want, ""), "}$1")
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
			for mode, want := range map[Mode][2]string{ModeJSON: {inJSON(c.text), inJSON(c.calls)}, ModeXML: {c.text, c.calls}} {
				c.opts.OutputMode = mode
				opts := Options{ToolOptions: c.opts}
				for _, size := range []int{1, 2, 3, 5, 7, 8, len(text)} {
					checkRun(t, opts, append(said("m", text, size), after...), want[0])
				}
				// Two deltas leave little to how they are batched.
				for split := 1; split < len(text); split++ {
					events := append([]codexrpc.Event{delta("m", text[:split]), delta("m", text[split:]), whole("m", text)}, after...)
					checkBatched(t, opts, events, oneByOne, want[0])
				}
				checkRun(t, opts, structured, want[1])
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

func checkBatched(t *testing.T, opts Options, events []codexrpc.Event, cut func(left int) int, want string) {
	t.Helper()
	outputs, report := run(opts, events, cut)
	got := told(outputs)
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

// moment is what a source gives after a pause.
type moment struct {
	after  time.Duration
	events []codexrpc.Event
}

// TestGrace: textual blocks are waited for, structured calls never.
func TestGrace(t *testing.T) {
	const grace = time.Second
	one, two, three := delta("m", block("1")), delta("m", block("2")), delta("m", block("3"))
	structured := call("a", "find", `{"q":"2"}`)
	const uncalled = "<use_tool><name>find</name><args>{</use_tool>" // Obsidian clients run it
	first, xml := Options{ToolOptions: ToolOptions{StopAfterTools: StopFirst}}, Options{ToolOptions: ToolOptions{OutputMode: ModeXML}}
	for name, c := range map[string]struct {
		opts    Options
		moments []moment
		want    string
		took    time.Duration
	}{
		"silence after a block": {Options{}, []moment{{0, []codexrpc.Event{one}}},
			"{0:1}|tool_calls", grace},
		"each block begins it anew": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace - 1, []codexrpc.Event{two}}, {grace - 1, []codexrpc.Event{three}}},
			"{0:1}{1:2}{2:3}|tool_calls", 3*grace - 2},
		"a block too late": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace + 1, []codexrpc.Event{two}}},
			"{0:1}|tool_calls", grace},
		"text alone does not": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " so")}}},
			"{0:1} so|tool_calls", grace},
		"a repeated block does": {Options{ToolOptions: ToolOptions{ToolBlockDedup: true}}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{one}}},
			"{0:1}|tool_calls", grace + grace/2},
		"an open block is waited for": {xml, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool>")}}, {5*grace + grace/2, []codexrpc.Event{delta("m", block("2")[len("<use_tool>"):])}}},
			written("«[1]»{0:1}«[2]»{1:2}|tool_calls"), 6*grace + grace/2},
		"an open block that grows is": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_tool>")}}, {2*grace - 1, []codexrpc.Event{delta("m", "<name>")}}, {grace, []codexrpc.Event{delta("m", block("2")[len("<use_tool><name>"):])}}},
			"{0:1}{1:2}|tool_calls", 4*grace - 1},
		"one that does not grow is not": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", "<use_tool><name>")}}, {50 * grace, []codexrpc.Event{delta("m", block("2")[len("<use_tool><name>"):])}}},
			"{0:1}<use_tool><name>|tool_calls", 2 * grace},
		"a block that is no call begins it anew": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", "<use_tool></use_tool>")}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1}«<use_tool></use_tool>»|tool_calls", grace + grace/2},
		"prose about the tag is not waited for": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " the <use_tool> tag")}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1} the <use_tool> tag|tool_calls", grace},
		"so is a begun tag": {Options{}, []moment{{0, []codexrpc.Event{one, delta("m", "<use_")}}, {grace + grace/2, []codexrpc.Event{delta("m", block("2")[len("<use_"):])}}},
			"{0:1}{1:2}|tool_calls", 2*grace + grace/2},
		"the end of the response ends it": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"the failure of Codex ends it": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{ended(codexrpc.StatusFailed, nil)}}},
			"{0:1}|failure", grace / 2},
		"first waits a grace": {first, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " so <use_tool>")}}, {5 * grace, []codexrpc.Event{two}}},
			"{0:1}|tool_calls", grace},
		"first learns of another": {first, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{two}}, {grace, []codexrpc.Event{three}}},
			"{0:1}|tool_calls", grace},
		"first learns the usage": {first, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{delta("m", " so"), response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"first does not fail with Codex": {first, []moment{{0, []codexrpc.Event{structured}}, {grace / 2, []codexrpc.Event{ended(codexrpc.StatusFailed, nil)}}},
			"{0:2}|tool_calls", grace / 2},
		"first waits a grace for structured calls": {first, []moment{{0, []codexrpc.Event{structured}}, {5 * grace, []codexrpc.Event{one}}},
			"{0:2}|tool_calls", grace},
		"off waits for the turn": {Options{ToolOptions: ToolOptions{StopAfterTools: StopOff}}, []moment{{0, []codexrpc.Event{one}}, {5 * grace, []codexrpc.Event{two}}, {5 * grace, []codexrpc.Event{completed}}},
			"{0:1}{1:2}|tool_calls", 10 * grace},

		"structured calls wait for the response": {Options{}, []moment{{0, []codexrpc.Event{call("b", "find", `{"q":"1"}`)}}, {5 * grace, []codexrpc.Event{structured}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:1}{1:2}|tool_calls", 10 * grace},
		"so does a turn of both, the block first": {Options{}, []moment{{0, []codexrpc.Event{one}}, {grace / 2, []codexrpc.Event{structured}}, {5 * grace, []codexrpc.Event{three, response(1)}}},
			"{0:1}{1:2}{2:3}|tool_calls", 5*grace + grace/2},
		"and the block last": {Options{}, []moment{{0, []codexrpc.Event{structured, one}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:2}{1:1}|tool_calls", 5 * grace},
		"and a block with its twin": {Options{}, []moment{{0, []codexrpc.Event{two, structured}}, {5 * grace, []codexrpc.Event{response(1)}}},
			"{0:2}|tool_calls", 5 * grace},

		"the limit waits for the usage": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{call("b", "find", `{"q":"1"}`), structured}}, {grace / 2, []codexrpc.Event{response(1)}}},
			"{0:1}|tool_calls", grace / 2},
		"but a grace at most": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{call("b", "find", `{"q":"1"}`), structured}}, {grace - 1, []codexrpc.Event{call("c", "find", `{"q":"3"}`)}}, {grace, []codexrpc.Event{completed}}},
			"{0:1}|tool_calls", grace},
		"a limit without calls": {Options{ToolOptions: ToolOptions{OutputMode: ModeXML, ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{delta("m", uncalled+uncalled)}}, {2 * grace, []codexrpc.Event{completed}}},
			"«" + uncalled + "»|stop", grace},
		"whatever is being written": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1}}, []moment{{0, []codexrpc.Event{one, two, delta("m", "<use_tool><name>")}}, {grace - 1, []codexrpc.Event{three}}, {grace, []codexrpc.Event{completed}}},
			"{0:1}|tool_calls", grace},
		"and also when nothing stops a turn": {Options{ToolOptions: ToolOptions{ToolBlockMax: 1, StopAfterTools: StopOff}}, []moment{{0, []codexrpc.Event{one, two}}, {5 * grace, []codexrpc.Event{completed}}},
			"{0:1}|tool_calls", grace},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.TextualTools, c.opts.SuppressTailAfterTools, c.opts.Grace = TextualOn, keepTail, grace
			synctest.Test(t, func(t *testing.T) { checkDrive(t, c.opts, c.moments, c.want, c.took) })
		})
	}
}

// TestNoGrace: without a grace, a turn ends once all that has arrived is processed.
func TestNoGrace(t *testing.T) {
	one, two := delta("m", block("1")), delta("m", block("2"))
	for name, c := range map[string]struct {
		stop    StopMode
		moments []moment
		want    string
	}{
		"burst":                    {StopBurst, []moment{{0, []codexrpc.Event{one, two}}, {1, []codexrpc.Event{two}}}, "{0:1}{1:2}|tool_calls"},
		"first":                    {StopFirst, []moment{{0, []codexrpc.Event{one, two}}, {1, []codexrpc.Event{two}}}, "{0:1}|tool_calls"},
		"first, a structured call": {StopFirst, []moment{{0, []codexrpc.Event{call("a", "find", `{"q":"1"}`)}}}, "{0:1}|tool_calls"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: c.stop}}
			synctest.Test(t, func(t *testing.T) { checkDrive(t, opts, c.moments, c.want, 0) })
		})
	}
	// What has arrived when the grace ends still counts.
	s, l := newScript(), &teller{}
	s.batches = [][]codexrpc.Event{{one}, {two}}
	opts := Options{ToolOptions: ToolOptions{TextualTools: TextualOn}}
	if err := Drive(t.Context(), s, New(&opts), l, time.Hour); err != nil || l.told != "{0:1}{1:2}|tool_calls" {
		t.Error(l.told, err)
	}
}

// TestFirst: the client gets the first call and nothing after it; what else the model said is counted.
func TestFirst(t *testing.T) {
	tail := " and so on"
	for name, c := range map[string]struct {
		events    []codexrpc.Event
		truncated bool
		tail      int
		usage     int64
	}{
		"one call":              {[]codexrpc.Event{delta("m", block("1")+tail), response(7)}, false, len(tail), 7},
		"two calls":             {[]codexrpc.Event{delta("m", block("1")+tail), delta("m", block("2")+tail), response(7)}, true, len(tail), 7},
		"two structured":        {[]codexrpc.Event{findCall("a", "1"), findCall("b", "2"), response(7)}, true, 0, 7},
		"a structured twin":     {[]codexrpc.Event{delta("m", block("1")), findCall("b", "1"), response(7)}, false, 0, 7},
		"reasoning":             {[]codexrpc.Event{findCall("a", "1"), thought("r", 0, "hm"), reasoned("r", "x"), response(7)}, false, 0, 7},
		"a cut response":        {[]codexrpc.Event{delta("m", block("1")+"<use_tool>"), tooLong}, false, 10, 22},
		"a block that is none":  {[]codexrpc.Event{delta("m", block("1")+"<use_tool></use_tool>"), response(7)}, false, 21, 7},
		"an open block at once": {[]codexrpc.Event{delta("m", block("1")+"<use_tool>"), response(7)}, false, 10, 7},
	} {
		for _, items := range []bool{false, true} {
			opts := Options{Items: items, ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopFirst, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}
			outputs, r := run(opts, c.events, atOnce)
			if got := told(outputs); !strings.HasSuffix(got, "{0:1}|tool_calls") || strings.Count(got, "<use_tool>") != 1 || strings.Contains(got, "~") {
				t.Errorf("%s: %s", name, got)
			}
			if end := outputs[len(outputs)-1].End; r.Truncated != c.truncated || r.Calls != 1 || r.TailBytes != c.tail || end.Usage.TotalTokens != c.usage {
				t.Errorf("%s: %+v, usage %+v", name, r, end.Usage)
			}
		}
	}
}

// checkDrive drives a turn through its moments, in a time of its own.
func checkDrive(t *testing.T, opts Options, moments []moment, want string, took time.Duration) {
	t.Helper()
	s, l := newScript(), &teller{}
	done := make(chan struct{})
	go func() {
		for _, m := range moments {
			select {
			case <-time.After(m.after):
			case <-done:
				return
			}
			s.give(m.events...)
		}
	}()
	start := time.Now()
	if err := Drive(t.Context(), s, New(&opts), l, time.Hour); err != nil {
		t.Fatal(err)
	}
	lasted := time.Since(start)
	close(done)
	if l.told != want || lasted != took {
		t.Errorf("%s after %s; want %s after %s", l.told, lasted, want, took)
	}
}

// teller is a consumer that notes what it is told.
type teller struct {
	listener
	told string
}

func (l *teller) Consume(outputs []Output) error {
	l.told += told(outputs)
	return nil
}

var toolCallForm = []aggregator.NamedPattern{{Name: "tool_call", Pattern: toolcall.Pattern{}}}

// inForm is a call of find as a <tool_call> block.
func inForm(q string) string {
	return `<tool_call>{"name":"find","arguments":{"q":"` + q + `"}}</tool_call>`
}

// TestPatterns: calls in other textual forms are calls like those in <use_tool>
// blocks: in the stream, for the tail, for the end of the turn and for the counts. In
// ModeXML they become <use_tool> blocks, since clients read no others.
func TestPatterns(t *testing.T) {
	open := `<tool_call>{"name":"find"`
	for name, c := range map[string]struct {
		tools     ToolOptions
		text      string
		json, xml string
		started   int
		aborted   map[usetool.AbortReason]int
	}{
		"two and a tail": {ToolOptions{}, "Hm " + inForm("1") + "\n" + inForm("2") + " bye",
			"Hm {0:1}{1:2}|tool_calls", "Hm «(1)»{0:1}\n«(2)»{1:2}|tool_calls", 2, nil},
		"two, and the tail is kept": {ToolOptions{SuppressTailAfterTools: keepTail}, inForm("1") + inForm("2") + " bye",
			"{0:1}{1:2} bye|tool_calls", "«(1)»{0:1}«(2)»{1:2} bye|tool_calls", 2, nil},
		"beside <use_tool>": {ToolOptions{}, block("1") + inForm("2") + block("3"),
			"{0:1}{1:2}{2:3}|tool_calls", "«[1]»{0:1}«(2)»{1:2}«[3]»{2:3}|tool_calls", 3, nil},
		"first": {ToolOptions{StopAfterTools: StopFirst}, "Hm " + inForm("1") + inForm("2"),
			"Hm {0:1}|tool_calls", "Hm «(1)»{0:1}|tool_calls", 2, nil},
		"dedup": {ToolOptions{ToolBlockDedup: true}, inForm("1") + block("1") + inForm("1"),
			"{0:1}|tool_calls", "«(1)»{0:1}|tool_calls", 3, nil},
		"a delimiter": {ToolOptions{ToolBlockDelimiter: "--"}, inForm("1") + inForm("2"),
			"{0:1}{1:2}|tool_calls", "«(1)»{0:1}--«(2)»{1:2}|tool_calls", 2, nil},
		"unclosed behind a call": {ToolOptions{}, inForm("1") + " so " + open,
			"{0:1} so " + open + "|tool_calls", "«(1)»{0:1} so " + open + "|tool_calls", 2, map[usetool.AbortReason]int{usetool.AbortUnclosed: 1}},
		"unclosed before one that is made": {ToolOptions{}, open + "}" + inForm("1"),
			open + "}{0:1}|tool_calls", open + "}«(1)»{0:1}|tool_calls", 2, map[usetool.AbortReason]int{usetool.AbortMalformed: 1}},
		"undeclared": {ToolOptions{}, strings.Replace(inForm("1"), "find", "seek", 1) + inForm("2"),
			strings.Replace(inForm("1"), "find", "seek", 1) + "{0:2}|tool_calls", strings.Replace(inForm("1"), "find", "seek", 1) + "«(2)»{0:2}|tool_calls", 2, map[usetool.AbortReason]int{aggregator.AbortUndeclared: 1}},
		"a block in a value": {ToolOptions{}, inForm(block("1")),
			`<tool_call>{"name":"find","arguments":{"q":"{0:1}"}}</tool_call>|tool_calls`,
			`<tool_call>{"name":"find","arguments":{"q":"«[1]»{0:1}"}}</tool_call>|tool_calls`, 2, map[usetool.AbortReason]int{usetool.AbortNested: 1}},
	} {
		if name == "a block in a value" {
			c.tools.SuppressTailAfterTools = keepTail
		}
		t.Run(name, func(t *testing.T) {
			for mode, want := range map[Mode]string{ModeJSON: c.json, ModeXML: c.xml} {
				opts := Options{
					ToolOptions:   c.tools,
					Patterns:      toolCallForm,
					AcceptTextual: func(name string) bool { return name == "find" },
				}
				opts.OutputMode, opts.TextualTools = mode, TextualOn
				for _, size := range []int{1, 2, 3, 7, len(c.text)} {
					events := append(said("m", c.text, size), response(1), completed)
					checkRun(t, opts, events, want)
					_, report := run(opts, events, oneByOne)
					if report.Started != c.started || !maps.Equal(report.Aborted, c.aborted) {
						t.Errorf("%d blocks begun, aborted %v", report.Started, report.Aborted)
					}
				}
			}
		})
	}
}

// TestPatternTwins: a call in another textual form and the same call as a structured one are one call,
// and the turn ends though Codex waits for the result. Where blocks are text, so are those of other forms.
func TestPatternTwins(t *testing.T) {
	events := append(said("m", inForm("1"), 9), findCall("a", "1"), response(1), completed)
	checkRun(t, Options{Patterns: toolCallForm, ToolOptions: ToolOptions{TextualTools: TextualOn}}, events, "{0:1}|tool_calls")
	checkRun(t, Options{Patterns: toolCallForm}, events, inForm("1")+"{0:1}|tool_calls")
}

// TestPatternGrace: the grace runs after a call in another form, and begins anew as
// long as a begun one is held.
func TestPatternGrace(t *testing.T) {
	m := New(&Options{Patterns: toolCallForm, ToolOptions: ToolOptions{TextualTools: TextualOn}})
	m.Feed([]codexrpc.Event{delta("m", inForm("1")+"<tool_c")})
	before := m.grace
	if m.GraceOver(); !before.running || m.Done() || m.grace.generation == before.generation {
		t.Fatal("a begun opener does not keep the turn, or the grace did not begin anew")
	}
	m.Feed([]codexrpc.Event{delta("m", "ool>")})
	if m.GraceOver(); !m.Done() {
		t.Error("the turn goes on")
	}
}

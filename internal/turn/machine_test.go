package turn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// New returns a machine at the start of a turn.
func New(opts *Options) *Machine {
	m := new(Machine)
	m.Reset(opts)
	return m
}

// The events of a turn, as short as tests want them.

func delta(item, text string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventTextDelta, ItemID: item, Text: text}
}

func whole(item, text string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemAgentMessage, ItemID: item, Text: text}
}

func thought(item string, index int, text string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventReasoningDelta, ItemID: item, Index: index, Text: text}
}

func call(id, name, arguments string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: id, Name: name, Text: arguments}
}

func response(tokens int64) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventResponseCompleted, Usage: &codexrpc.Usage{TotalTokens: tokens, InputTokens: tokens}}
}

func ended(status string, err *codexrpc.TurnError) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: status, Err: err}
}

func complaint(message string, retry bool) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventError, WillRetry: retry, Err: &codexrpc.TurnError{Message: message, Code: "other"}}
}

func begun(item string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemAgentMessage, ItemID: item}
}

func begunThought(item string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemReasoning, ItemID: item}
}

var completed = ended(codexrpc.StatusCompleted, nil)

func say(outputs []Output) string {
	var b strings.Builder
	for _, o := range outputs {
		switch o.Kind {
		case OutputText:
			fmt.Fprintf(&b, "text %q\n", o.Text)
		case OutputReasoning:
			fmt.Fprintf(&b, "reasoning %q\n", o.Text)
		case OutputCall:
			fmt.Fprintf(&b, "call %d %s %s %s\n", o.Call, o.ID, o.Name, o.Text)
		case OutputFinish:
			at := ""
			if o.End.StopSequence != "" {
				at = fmt.Sprintf(" at %q", o.End.StopSequence)
			}
			fmt.Fprintf(&b, "finish %s %d%s\n", o.End.Finish, o.End.Usage.TotalTokens, at)
		case OutputFailure:
			fmt.Fprintf(&b, "failure %v\n", o.Err)
		}
	}
	return b.String()
}

// run returns what a machine makes of events, in batches whose sizes cut decides.
func run(opts Options, events []codexrpc.Event, cut func(left int) int) ([]Output, Report) {
	m := New(&opts)
	var outputs []Output
	for len(events) > 0 {
		n := cut(len(events))
		outputs = append(outputs, m.Feed(events[:n])...)
		events = events[n:]
	}
	return outputs, m.Report()
}

// checkSaid feeds events in batches of every kind.
func checkSaid(t *testing.T, opts Options, events []codexrpc.Event, want string) {
	t.Helper()
	for _, cut := range batchings {
		outputs, _ := run(opts, events, cut)
		if got := say(outputs); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}

func atOnce(left int) int { return left }
func oneByOne(int) int    { return 1 }

// batchings are ways to cut a turn's events into batches.
var batchings = []func(left int) int{atOnce, oneByOne, func(left int) int { return 1 + rand.N(left) }}

func TestMachine(t *testing.T) {
	client := Options{IDSuffix: "xy", ClientName: func(name string) (string, bool) {
		return strings.CutPrefix(name, "c_")
	}}
	single := Options{IDSuffix: "xy", ClientName: client.ClientName, ToolOptions: ToolOptions{ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}
	for name, c := range map[string]struct {
		opts   Options
		events []codexrpc.Event
		want   string
	}{
		"text": {client, []codexrpc.Event{delta("m", "Hel"), delta("m", "lo"), whole("m", "Hello"), response(7), completed},
			"text \"Hel\"\ntext \"lo\"\nfinish stop 7\n"},
		"repeated text survives": {client, []codexrpc.Event{delta("m", "l"), delta("m", "l"), delta("m", "ll"), delta("m", "aa"), delta("m", "aa"), whole("m", "llllaaaa"), completed},
			"text \"l\"\ntext \"l\"\ntext \"ll\"\ntext \"aa\"\ntext \"aa\"\nfinish stop 0\n"},
		"a whole without deltas": {client, []codexrpc.Event{whole("m", "Hello"), completed}, "text \"Hello\"\nfinish stop 0\n"},
		"a whole that knows more": {client, []codexrpc.Event{delta("m", "Hel"), whole("m", "Hello"), completed},
			"text \"Hel\"\ntext \"lo\"\nfinish stop 0\n"},
		"a whole that differs": {client, []codexrpc.Event{delta("m", "Hel"), whole("m", "Goodbye"), completed}, "text \"Hel\"\nfinish stop 0\n"},
		"a whole that comes twice": {client, []codexrpc.Event{whole("m", "Hello"), whole("m", "Hello"), delta("m", "late"), completed},
			"text \"Hello\"\nfinish stop 0\n"},
		"two messages": {client, []codexrpc.Event{delta("a", "One."), whole("a", "One."), delta("b", "Two."), whole("b", "Two."), completed},
			"text \"One.\"\ntext \"\\n\\n\"\ntext \"Two.\"\nfinish stop 0\n"},
		"empty deltas": {client, []codexrpc.Event{delta("m", ""), whole("m", ""), completed}, "finish stop 0\n"},
		"reasoning": {client, []codexrpc.Event{thought("r", 0, "I "), thought("r", 0, "think"), thought("r", 1, "more"), delta("m", "42"), completed},
			"reasoning \"I \"\nreasoning \"think\"\nreasoning \"\\n\\n\"\nreasoning \"more\"\ntext \"42\"\nfinish stop 0\n"},
		"a burst ends with the model response": {client, []codexrpc.Event{call("1", "c_a", "{1}"), call("2", "c_b", "{2}"), response(5), delta("m", "late"), completed},
			"call 0 tool_0_0_xy a {1}\ncall 1 tool_0_1_xy b {2}\nfinish tool_calls 5\n"},
		"a call that comes twice": {client, []codexrpc.Event{call("1", "c_a", "{}"), call("1", "c_a", "{}"), response(5)},
			"call 0 tool_0_0_xy a {}\nfinish tool_calls 5\n"},
		"one call at most": {single, []codexrpc.Event{call("1", "c_a", "{1}"), call("2", "c_a", "{2}"), response(5)},
			"call 0 tool_0_0_xy a {1}\nfinish tool_calls 5\n"},
		"a tool of nobody's": {client, []codexrpc.Event{call("1", "other", "{}"), response(5), delta("m", "so"), response(6), completed},
			"text \"so\"\nfinish stop 11\n"},
		"compaction": {client, []codexrpc.Event{{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemContextCompaction}, delta("m", "a summary"), completed},
			"failure " + ErrCompacted.Error() + "\n"},
		"length": {client, []codexrpc.Event{delta("m", "cut"), {Kind: codexrpc.EventTokenUsage, Usage: &codexrpc.Usage{TotalTokens: 15, InputTokens: 15}},
			ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: "Incomplete response returned, reason: max_output_tokens"})},
			"text \"cut\"\nfinish length 15\n"},
		"content filter": {client, []codexrpc.Event{ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: "stream disconnected before completion: Incomplete response returned, reason: content_filter"})},
			"finish content_filter 0\n"},
		"failed": {client, []codexrpc.Event{complaint("no", false), ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: "no", Code: "other"})},
			"failure codex: no (other)\n"},
		"failed without a reason": {client, []codexrpc.Event{ended(codexrpc.StatusFailed, nil)},
			"failure codex: the turn failed without a reason (other)\n"},
		"interrupted": {client, []codexrpc.Event{ended(codexrpc.StatusInterrupted, nil)}, "failure " + ErrInterrupted.Error() + "\n"},
		"a retry before any output": {client, []codexrpc.Event{complaint("again", true), delta("m", "ok"), completed},
			"text \"ok\"\nfinish stop 0\n"},
		"a retry after some output": {client, []codexrpc.Event{delta("m", "ha"), complaint("again", true), delta("n", "half"), completed},
			"text \"ha\"\nfailure codex: again (other)\n"},
		"a retry of a filtered answer": {client, []codexrpc.Event{delta("m", "ha"), {Kind: codexrpc.EventError, WillRetry: true,
			Err: &codexrpc.TurnError{Message: "again", Details: "Incomplete response returned, reason: content_filter"}}, delta("n", "ha")},
			"text \"ha\"\nfinish content_filter 1\n"},
		"a hidden retry before any output": {client, []codexrpc.Event{begun("m"), begun("n"), delta("n", "ok"), whole("n", "ok"), completed},
			"text \"ok\"\nfinish stop 0\n"},
		"a hidden retry after some output": {client, []codexrpc.Event{begun("m"), delta("m", "ha"), begunThought("r"), thought("r", 0, "hm"), completed},
			"text \"ha\"\nfailure " + errBrokeOff.Error() + "\n"},
		"a hidden retry of a filtered answer": {client, []codexrpc.Event{begun("m"), delta("m", "ha"), whole("m", "ha"),
			{Kind: codexrpc.EventItemCut, ItemID: "m"}, begun("n"), delta("n", "ha"), completed},
			"text \"ha\"\nfinish content_filter 1\n"},
		"items one after another": {client, []codexrpc.Event{begunThought("r"), thought("r", 0, "hm"), {Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemReasoning, ItemID: "r"},
			begun("m"), delta("m", "a"), whole("m", "a"), begun("n"), begun("n"), delta("n", "b"), whole("n", "b"), completed},
			"reasoning \"hm\"\ntext \"a\"\ntext \"\\n\\n\"\ntext \"b\"\nfinish stop 0\n"},
	} {
		t.Run(name, func(t *testing.T) { checkSaid(t, c.opts, c.events, c.want) })
	}
}

func TestMachineFails(t *testing.T) {
	m := New(&Options{})
	m.Feed([]codexrpc.Event{complaint("waiting for network", true)})
	outputs := m.Fail(ErrIdle)
	if len(outputs) != 1 || !errors.Is(outputs[0].Err, ErrIdle) || !strings.HasPrefix(outputs[0].Err.Error(), "the model's provider cannot be reached: ") {
		t.Errorf("%s", say(outputs))
	}
	if outputs := m.Fail(codexrpc.ErrClosed); len(outputs) != 0 {
		t.Errorf("a second end: %s", say(outputs))
	}
	if outputs := m.Feed([]codexrpc.Event{delta("m", "late")}); len(outputs) != 0 {
		t.Errorf("an output after the end: %s", say(outputs))
	}
}

func BenchmarkTextDeltas(b *testing.B) {
	events := make([]codexrpc.Event, 100)
	for i := range events {
		events[i] = delta("msg_0123456789", "token ")
	}
	b.ReportAllocs()
	m := New(&Options{})
	for b.Loop() {
		if len(m.Feed(events)) != len(events) {
			b.Fatal("outputs were lost")
		}
	}
}

func reasoned(item, encrypted string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventReasoningItem, ItemID: item, Text: encrypted}
}

func phased(item, text, phase string) codexrpc.Event {
	e := whole(item, text)
	e.Phase = phase
	return e
}

// sayItems is say with what only a client of items is told.
func sayItems(outputs []Output) string {
	var lines []string
	for i := range outputs {
		o := &outputs[i]
		switch {
		case o.Kind == OutputReasoningEnd:
			lines = append(lines, "thought "+o.ID+" "+o.Text)
		case o.Gap:
			lines = append(lines, strings.TrimSpace("gap "+o.Phase))
		case o.Kind == OutputReasoning:
			lines = append(lines, "reasoning "+o.ID+" "+o.Text)
		case o.Kind == OutputText:
			lines = append(lines, "text "+o.Text)
		case o.Kind == OutputCall:
			lines = append(lines, "call "+o.Name)
		case o.Kind == OutputSearchStart:
			lines = append(lines, "search")
		case o.Kind == OutputSearchEnd:
			lines = append(lines, "searched")
		case o.Kind == OutputAnnotations:
			lines = append(lines, "cited "+strconv.Itoa(o.Part))
		case o.Kind == OutputFinish:
			lines = append(lines, string(o.End.Finish))
		case o.Kind == OutputFailure:
			lines = append(lines, "failure")
		}
	}
	return strings.Join(lines, ", ")
}

func TestItems(t *testing.T) {
	failed := ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: "broken", Code: "other"})
	for name, test := range map[string]struct {
		suppress bool
		events   []codexrpc.Event
		want     string
	}{
		"reasoning": {false, []codexrpc.Event{thought("r1", 0, "a"), thought("r1", 1, "b"), reasoned("r1", "E"), delta("m", "x"), response(1), completed},
			"reasoning r1 a, gap, reasoning r1 b, thought r1 E, text x, stop"},
		"reasoning alone": {false, []codexrpc.Event{reasoned("r1", "E"), response(1), completed}, "thought r1 E, stop"},
		"two messages":    {false, []codexrpc.Event{delta("m1", "a"), whole("m1", "a"), delta("m2", "b"), response(1), completed}, "text a, gap, text b, stop"},
		"phases": {false, []codexrpc.Event{delta("m1", "a"), phased("m1", "a", "commentary"), delta("m2", "b"), phased("m2", "b", "final_answer"), response(1), completed},
			"text a, gap commentary, gap, text b, gap final_answer, stop"},
		"phase of text that waits": {true, []codexrpc.Event{call("c", "f", "{}"), delta("m", "a"), phased("m", "a", "commentary"), call("d", "f", `{"a":1}`), response(1)},
			"call f, text a, call f, tool_calls"},
		"phase without a text": {false, []codexrpc.Event{phased("m", "", "commentary"), response(1), completed}, "stop"},
		"reasoning between messages": {false, []codexrpc.Event{delta("m1", "a"), reasoned("r", "E"), delta("m2", "b"), response(1), completed},
			"text a, thought r E, gap, text b, stop"},
		"message behind a call": {false, []codexrpc.Event{delta("m1", "a"), call("c", "f", "{}"), delta("m2", "b"), response(1)},
			"text a, call f, gap, text b, tool_calls"},
		"messages between calls that wait": {true, []codexrpc.Event{delta("m1", "a"), call("c", "f", "{}"), delta("m2", "b"), delta("m3", "c"), call("d", "f", `{"a":1}`), response(1)},
			"text a, call f, text b\n\nc, call f, tool_calls"},
		"failure before anything": {false, []codexrpc.Event{reasoned("r", "E"), failed}, "failure"},
		"another attempt":         {false, []codexrpc.Event{reasoned("r", "E"), complaint("again", true), reasoned("r2", "F"), delta("m", "x"), response(1), completed}, "thought r2 F, text x, stop"},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(&Options{Items: true, ToolOptions: ToolOptions{SuppressTailAfterTools: new(test.suppress)}})
			if got := sayItems(m.Feed(test.events)); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
	t.Run("of no use to others", func(t *testing.T) {
		m := New(&Options{})
		got := sayItems(m.Feed([]codexrpc.Event{reasoned("r1", "E"), delta("m1", "a"), delta("m2", "b"), response(1), completed}))
		if want := "text a, text \n\n, text b, stop"; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		m := New(&Options{Items: true})
		events := make([]codexrpc.Event, 10*maxPendingReasoning)
		for i := range events {
			events[i] = reasoned("r", "E")
		}
		outputs := m.Feed(append(events, completed))
		if len(outputs) != maxPendingReasoning+1 {
			t.Errorf("%d outputs", len(outputs))
		}
	})
}

// TestOwnTools checks that a turn fails if Codex offers the model a tool of its own or has run
// one, or if the model makes a call that only Codex's tools have, and that it goes on if the model
// has only called what nobody knows.
func TestOwnTools(t *testing.T) {
	names := func(name string) (string, bool) { return name, name == "find" }
	search, picture := Options{WebSearch: true}, Options{Picture: true}
	offered := func(names string) []codexrpc.Event {
		return []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: names}}
	}
	strange, answer := call("c", "exec", `{}`), pictureAnswer("", "")
	for name, c := range map[string]struct {
		opts      Options
		events    []codexrpc.Event
		fails     error
		unoffered int
	}{
		"the client's":          {Options{}, offered("find\n"), nil, 0},
		"none":                  {Options{}, offered(""), nil, 0},
		"a search":              {search, offered("find\nweb_search\n"), nil, 0},
		"a search, not on":      {Options{}, offered("web_search\n"), ErrOwnTools, 0},
		"a picture":             {picture, offered(codexrpc.PictureTool + "\n"), nil, 0},
		"a picture, not wanted": {search, offered(codexrpc.PictureTool + "\n"), ErrOwnTools, 0},
		"one of Codex's":        {search, offered("find\nexec\n"), ErrOwnTools, 0},
		"called":                {Options{}, []codexrpc.Event{{Kind: codexrpc.EventOwnCall, Name: "exec"}}, ErrInventedTool, 1},
		"run":                   {Options{}, []codexrpc.Event{strange, response(1), answer}, ErrOwnTools, 1},
		"run for a picture":     {search, []codexrpc.Event{pictureCall, response(1), answer}, ErrOwnTools, 1},
		"refused by Codex":      {Options{}, []codexrpc.Event{strange, response(1), pictureAnswer("", codexrpc.StatusFailed), pictureCall}, nil, 2},
		"a result of others":    {Options{}, []codexrpc.Event{strange, response(1), {Kind: codexrpc.EventCallOutput, CallID: "c2"}}, nil, 1},
	} {
		c.opts.ClientName = names
		outputs, report := run(c.opts, c.events, atOnce)
		var failure error
		if len(outputs) > 0 {
			failure = outputs[0].Err
		}
		if !errors.Is(failure, c.fails) || len(outputs) > 1 || report.Calls != 0 || report.Unoffered != c.unoffered {
			t.Errorf("%s: %s%+v", name, say(outputs), report)
		}
	}
}

// lessThans is text of size bytes with n times "<", in deltas of a token's size.
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

// turnCase is a turn, without its end, and what it tells.
type turnCase struct {
	opts   Options
	events []codexrpc.Event
	want   string
}

// The settings of the cases below.
var (
	plainText   = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}}
	inXML       = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}
	offText     = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopOff, SuppressTailAfterTools: keepTail}}
	suppress    = Options{ToolOptions: ToolOptions{TextualTools: TextualOn}}
	suppressXML = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML}}
	oneXML      = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, ToolBlockMax: 1}}
	oneJSON     = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1}}
	undeclaring = Options{AcceptTextual: func(name string) bool { return name == "find" }, ToolOptions: ToolOptions{TextualTools: TextualOn}}
	renamed     = Options{ClientName: func(name string) (string, bool) { return strings.CutPrefix(name, "codex_") }, ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}}
)

// tooLong is the end of a turn whose response was cut.
var tooLong = ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: incompletePrefix + "max_output_tokens"})

func findCall(id, q string) codexrpc.Event { return call(id, "find", `{"q":"`+q+`"}`) }

var textCases = map[string]turnCase{
	"nothing but blocks":            {plainText, said("m", written("\n [1]\n\n[2]\r\n\u00a0"), 99), "{0:1}{1:2}|tool_calls"},
	"nothing but white space":       {plainText, said("m", " \n\n ", 1), " \n\n |stop"},
	"white space begins a text":     {plainText, said("m", " \n a \n", 1), " \n a \n|stop"},
	"nothing at all":                {plainText, nil, "|stop"},
	"a block and a text in a fence": {plainText, said("m", written("```\n[1]\n```\n[2]"), 99), "```\n[1]\n```\n{0:2}|tool_calls"},
	"a fence ends with its message": {plainText, append(said("m", "```\ncode", 99), said("n", written("[1]"), 99)...), "```\ncode\n\n{0:1}|tool_calls"},
	"a fence is nothing in XML":     {inXML, said("m", written("```\n[1]\n```"), 99), "```\n«[1]»{0:1}\n```|tool_calls"},
	"a block ends with its message": {inXML, append(said("m", "<use_tool><name>find</name>", 99), said("n", "</use_tool>", 99)...), "<use_tool><name>find</name>\n\n</use_tool>|stop"},
	"a tag ends with its message":   {inXML, append(said("m", "<use_", 99), said("n", "tool>", 99)...), "<use_\n\ntool>|stop"},
	"attributes":                    {inXML, said("m", `a <use_tool id="1"><name>find</name><q>1</q></use_tool> b <use_tool id="2"> c`, 99), `a «<use_tool><name>find</name><q>1</q></use_tool>»{0:1} b <use_tool id="2"> c|tool_calls`},
	"attributes in JSON":            {plainText, said("m", `a <use_tool id="1"><name>find</name><q>1</q></use_tool> b`, 99), `a {0:1} b|tool_calls`},
	"attributes at the limit":       {oneXML, said("m", "<use_tool\nid='1'><name>find</name><q>1</q></use_tool><use_tool><name>find</name>", 99), "«<use_tool><name>find</name><q>1</q></use_tool>»{0:1}|tool_calls"},
	"two messages interleaved": {inXML, []codexrpc.Event{delta("m", "one"), delta("n", written("[1]")[:20]), whole("m", "one"), delta("n", written("[1]")[20:]), whole("n", written("[1]"))},
		"one\n\n«[1]»{0:1}|tool_calls"},
	"a block in a whole that knows more": {inXML, []codexrpc.Event{delta("m", "a <use_"), whole("m", written("a [1]"))}, "a «[1]»{0:1}|tool_calls"},
	"a whole without deltas":             {inXML, []codexrpc.Event{whole("m", written("a [1]"))}, "a «[1]»{0:1}|tool_calls"},
	"a completed message that repeats":   {inXML, append(said("m", written("a [1]"), 3), whole("m", written("a [1]")), delta("m", written("[1]"))), "a «[1]»{0:1}|tool_calls"},
	"reasoning quotes a block":           {inXML, []codexrpc.Event{thought("r", 0, written("[1]"))}, written("~[1]~|stop")},
}

// twinCases are blocks and structured calls of the same action.
var twinCases = map[string]turnCase{
	"twins, the text first":       {suppress, append(said("m", written("Hm [1] so"), 99), findCall("a", "1"), response(1)), "Hm {0:1}|tool_calls"},
	"twins, the text last":        {suppress, append([]codexrpc.Event{findCall("a", "1")}, append(said("m", written("Hm [1] so"), 99), response(1))...), "{0:1}|tool_calls"},
	"twins in XML, text first":    {inXML, append(said("m", written("Hm [1]"), 99), findCall("a", "1"), response(1)), "Hm «[1]»{0:1}|tool_calls"},
	"twins in XML, text last":     {inXML, append([]codexrpc.Event{findCall("a", "1")}, append(said("m", written("Hm [1]"), 99), response(1))...), "«(1)»{0:1}Hm |tool_calls"},
	"calls of other types":        {Options{ToolOptions: ToolOptions{ToolBlockDedup: true, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{call("a", "find", `{"q":"1"}`), call("b", "find", `{"q":1}`), call("c", "find", `{"q":"1"}`), response(1)}, `{0:1}{1:{"q":1}}|tool_calls`},
	"other unknown arguments":     {suppress, append(said("m", "<use_tool><name>webSearch</name><q>cats</q></use_tool>", 99), call("a", "webSearch", `{"q":"dogs"}`), response(1)), "{0:cats}{1:dogs}|tool_calls"},
	"a text that reads null":      {Options{ToolOptions: ToolOptions{ToolBlockDedup: true, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{findCall("a", "null"), call("b", "find", "{}"), response(1)}, "{0:null}{1:{}}|tool_calls"},
	"two pairs of twins":          {plainText, append(said("m", written("[1][1]"), 99), findCall("a", "1"), findCall("b", "1"), response(1)), "{0:1}{1:1}|tool_calls"},
	"one twin of two":             {plainText, append(said("m", written("[1]"), 99), findCall("a", "1"), findCall("b", "1"), response(1)), "{0:1}{1:1}|tool_calls"},
	"twins when the model may go": {offText, append(said("m", written("[1]"), 99), findCall("a", "1"), response(1), delta("n", "late")), "{0:1}|tool_calls"},
	"twins at the limit": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}, append(said("m", written("[1]"), 99), findCall("a", "1"), response(1)),
		"{0:1}|tool_calls"},
}

// givenUpCases are blocks behind a call that are no calls.
var givenUpCases = map[string]turnCase{
	"unclosed":                   {suppressXML, said("m", written("[1] and <use_tool><name>find</name><q>2</q>"), 99), "«[1]»{0:1} and <use_tool><name>find</name><q>2</q>|tool_calls"},
	"nameless":                   {suppressXML, said("m", written("[1] and <use_tool><q>2</q></use_tool> so"), 99), "«[1]»{0:1} and «<use_tool><q>2</q></use_tool>»|tool_calls"},
	"nested":                     {suppressXML, said("m", written("[1]<use_tool><name>find</name><q>see [2]</q></use_tool> so"), 99), "«[1]»{0:1}<use_tool><name>find</name><q>see «[2]»{1:2}|tool_calls"},
	"too large":                  {suppressXML, said("m", block("1")+tooLarge, 1<<20), "«[1]»{0:1}" + tooLarge + "|tool_calls"},
	"tail behind the next call":  {suppressXML, said("m", written("[1]<use_tool></use_tool> so [2] bye"), 99), "«[1]»{0:1}«<use_tool></use_tool>» so «[2]»{1:2}|tool_calls"},
	"prose about the tag":        {suppressXML, said("m", written("[1] The <use_tool> tag of it, and so on"), 99), "«[1]»{0:1}|tool_calls"},
	"prose about it in JSON":     {suppress, said("m", written("[1] The <use_tool> tag of it, and so on"), 99), "{0:1}|tool_calls"},
	"a block that runs too much": {oneXML, said("m", `<use_tool><name>find</name><args>{"q":"</use_tool><use_tool><name>x</name>"}</args></use_tool>`, 999), "«<use_tool>\n<name>find</name>\n<q></use_tool ><use_tool><name>x</name ></q>\n</use_tool>»{0:</use_tool><use_tool><name>x</name>}|tool_calls"},
	"nameless, above the limit":  {oneXML, said("m", written("[1]<use_tool></use_tool> so"), 99), "«[1]»{0:1}«<use_tool></use_tool>»|tool_calls"},
	"closed, above the limit":    {oneXML, said("m", written("[1] a <use_tool><name>find</name><args>{</use_tool> so"), 99), "«[1]»{0:1}|tool_calls"},
	"it is text in JSON":         {oneJSON, said("m", written("[1] a <use_tool><name>find</name><args>{</use_tool> so"), 99), "{0:1} a «<use_tool><name>find</name><args>{</use_tool>»|tool_calls"},
	"a call behind it in JSON":   {oneJSON, said("m", written("a <use_tool><name>find</name><args>{</use_tool> so [1]"), 99), "a «<use_tool><name>find</name><args>{</use_tool>» so {0:1}|tool_calls"},
	"in the next message":        {suppressXML, append(said("m", written("[1] one"), 99), said("n", "<use_tool><name>find</name>", 99)...), "«[1]»{0:1} one\n\n<use_tool><name>find</name>|tool_calls"},
	"behind a structured call":   {suppressXML, []codexrpc.Event{findCall("a", "1"), delta("m", "so <use_tool>"), whole("m", "so <use_tool>"), response(1)}, "«(1)»{0:1}so <use_tool>|tool_calls"},
	"before a structured call":   {suppressXML, append(said("m", "<use_tool><name>find</name>", 99), findCall("a", "1"), response(1)), "<use_tool><name>find</name></use_tool>«(1)»{0:1}|tool_calls"},
	"in JSON":                    {suppress, said("m", written("[1] and <use_tool><name>find</name><q>2</q>"), 99), "{0:1} and <use_tool><name>find</name><q>2</q>|tool_calls"},
	"text of a tool in JSON":     {undeclaring, said("m", strings.ReplaceAll(block("1"), "find", "seek")+written("[1] so ")+strings.ReplaceAll(block("2"), "find", "seek"), 7), strings.ReplaceAll(written("«[1]»{0:1} so «[2]»|tool_calls"), "find", "seek")},
	"above the limit":            {oneXML, said("m", written("[1] and <use_tool><name>find</name>"), 99), "«[1]»{0:1}|tool_calls"},
	"above the limit in JSON":    {oneJSON, said("m", written("[1] and <use_tool><name>find</name>"), 99), "{0:1} and <use_tool><name>find</name>|tool_calls"},
	"behind a repeated block":    {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, ToolBlockDedup: true}}, said("m", written("[1][1]<use_tool><name>find</name>"), 99), "«[1]»{0:1}<use_tool><name>find</name>|tool_calls"},
	"behind the first and last":  {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, StopAfterTools: StopFirst}}, said("m", written("[1]<use_tool><name>find</name>"), 99), "«[1]»{0:1}|tool_calls"},
	"open when the turn fails":   {suppressXML, []codexrpc.Event{delta("m", written("[1] and <use_tool>")), ended(codexrpc.StatusFailed, nil)}, "«[1]»{0:1} and <use_tool>|failure"},
	"open where the text is cut": {suppressXML, []codexrpc.Event{delta("m", written("[1] and <use_tool>")), tooLong}, "«[1]»{0:1} and <use_tool>|length"},
}

// tooLarge is a block above the limit of one.
var tooLarge = "<use_tool><name>find</name><q>" + strings.Repeat("x", aggregator.DefaultMaxBlock) + "</q></use_tool>"

var cutCases = map[string]turnCase{
	"length": {plainText, []codexrpc.Event{delta("m", "It stops be"), tooLong}, "It stops be|length"},
	"length after a call": {inXML, append(said("m", written("[1] and "), 99), tooLong),
		"«[1]»{0:1} and |tool_calls"},
	"length within a block":         {inXML, []codexrpc.Event{delta("m", written("[1]<use_tool>")), tooLong}, "«[1]»{0:1}<use_tool>|length"},
	"length within a whole message": {inXML, append(said("m", written("[1]<use_tool>"), 99), tooLong), "«[1]»{0:1}<use_tool>|length"},
	"length after an open block":    {inXML, append(said("m", written("[1]<use_tool>"), 99), delta("n", "so"), tooLong), "«[1]»{0:1}<use_tool>\n\nso|tool_calls"},
	"length within a second call":   {plainText, []codexrpc.Event{findCall("a", "1"), call("b", "find", `{"q":"`), tooLong}, "{0:1}{1:}|length"},
	"length after a second call":    {plainText, []codexrpc.Event{findCall("a", "1"), findCall("b", "2"), tooLong}, "{0:1}{1:2}|tool_calls"},
}

// endCases are ends that close a block, or come too late to matter.
var endCases = map[string]turnCase{
	"the end closes a block":    {plainText, []codexrpc.Event{delta("m", brokenBlock)}, "{0:" + brokenArguments + "}|tool_calls"},
	"the end of a message does": {plainText, []codexrpc.Event{delta("m", brokenBlock), whole("m", brokenBlock), delta("n", "x")}, "{0:" + brokenArguments + "}\n\nx|tool_calls"},
	"the next message closes it": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopFirst, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", brokenBlock), delta("n", "x")},
		"«" + brokenBlock + "»{0:" + brokenArguments + "}|tool_calls"},
	"a failure closes it": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopFirst, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", brokenBlock), ended(codexrpc.StatusInterrupted, nil)},
		"{0:" + brokenArguments + "}|tool_calls"},
	"a failure after the limit": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", written("[1][2]")), complaint("again", true), ended(codexrpc.StatusFailed, nil)},
		"{0:1}|tool_calls"},
	"a failure that closes a block above the limit": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", block("1")+brokenBlock), ended(codexrpc.StatusFailed, nil)},
		"{0:1}|tool_calls"},
	"a failure flushes": {inXML, []codexrpc.Event{delta("m", "a <use_tool><name>f"), ended(codexrpc.StatusFailed, nil)}, "a <use_tool><name>f|failure"},
}

// oddCases are calls as no good model makes them.
var oddCases = map[string]turnCase{
	"no name that a client could be told": {inXML, said("m", longName, 999), "«" + longName + "»|stop"},
	"no object in XML":                    {inXML, []codexrpc.Event{call("a", "find", `[true]`), response(1)}, unwritable(`[true]`) + "{0:[true]}|tool_calls"},
	"no JSON in XML":                      {inXML, []codexrpc.Event{call("a", "find", `{"q":`), findCall("b", "1"), response(1)}, unwritable(`{\"q\":`) + written("{0:{\"q\":}«(1)»{1:1}|tool_calls")},
	"a block for arguments in XML":        {inXML, []codexrpc.Event{call("a", "find", block("1")), response(1)}, unwritable(strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(block("1"))) + "{0:" + block("1") + "}|tool_calls"},
	"an argument that cannot be a tag":    {inXML, []codexrpc.Event{call("a", "find", `{"a b":1}`), response(1)}, unwritable(`{\"a b\":1}`) + `{0:{"a b":1}}|tool_calls`},
	"no object in JSON":                   {plainText, []codexrpc.Event{call("a", "find", `{"q":`), response(1)}, `{0:{"q":}|tool_calls`},
	"no arguments at all in XML":          {inXML, []codexrpc.Event{call("a", "find", ``), response(1)}, "«<use_tool>\n<name>find</name>\n</use_tool>»{0}|tool_calls"},
	"an argument that stands twice":       {inXML, []codexrpc.Event{call("a", "find", `{"q":"x","q":"1"}`), response(1)}, `«(1)»{0:x","q":"1}|tool_calls`},
	"a block by Codex's name":             {renamed, said("m", strings.Replace(block("1"), "find", "codex_find", 1), 9), "{0:1}|tool_calls"},
	"one id, other arguments":             {plainText, []codexrpc.Event{findCall("a", "1"), findCall("a", "2"), findCall("a", "1"), response(1)}, "{0:1}{1:2}|tool_calls"},
	"one id, other arguments in XML":      {inXML, []codexrpc.Event{findCall("a", "1"), findCall("a", "2"), findCall("a", "2"), response(1)}, "«(1)»{0:1}«(2)»{1:2}|tool_calls"},
	"one id, other names":                 {plainText, []codexrpc.Event{findCall("a", "1"), call("a", "note", `{"q":"1"}`), response(1)}, "{0:1}{1:1}|tool_calls"},
	"a call without an id":                {plainText, []codexrpc.Event{findCall("", "1"), findCall("", "2"), response(1)}, "{0:1}{1:2}|tool_calls"},
}

// unwritable is what stands for a call of find in the place of a block.
func unwritable(quoted string) string {
	return `[The call of "find" cannot be written as a block. Its arguments: "` + quoted + `"]`
}

// TestTurns: what does not depend on the setting alone.
func TestTurns(t *testing.T) {
	for _, cases := range []map[string]turnCase{textCases, twinCases, givenUpCases, cutCases, endCases, oddCases} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) { checkRun(t, c.opts, append(c.events, completed), c.want) })
		}
	}
}

// brokenBlock is a block only because the message ends there: until then the
// closing tag might be part of a JSON string.
const (
	brokenBlock     = `<use_tool><name>find</name><args>{"q":"1}</args></use_tool>`
	brokenArguments = `1}`
)

// longName is a block with a name that no API takes.
var longName = "<use_tool><name>" + strings.Repeat("n", 5000) + "</name></use_tool>"

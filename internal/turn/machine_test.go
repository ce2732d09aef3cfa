package turn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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

// say writes outputs as a line each.
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

// feed runs a machine over events in batches whose sizes cut decides.
func feed(opts Options, events []codexrpc.Event, cut func(left int) int) string {
	m := New(&opts)
	var b strings.Builder
	for len(events) > 0 {
		n := cut(len(events))
		b.WriteString(say(m.Feed(events[:n])))
		events = events[n:]
	}
	return b.String()
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
		t.Run(name, func(t *testing.T) {
			for _, cut := range batchings {
				if got := feed(c.opts, c.events, cut); got != c.want {
					t.Errorf("got\n%swant\n%s", got, c.want)
				}
			}
		})
	}
}

// TestUnofferedCalls counts the calls of tools that are not the client's.
func TestUnofferedCalls(t *testing.T) {
	m := New(&Options{ClientName: func(name string) (string, bool) { return strings.CutPrefix(name, "c_") }})
	m.Feed([]codexrpc.Event{call("1", "other", "{}"), call("2", "c_a", "{}"), call("3", "other", "{}"), response(5)})
	if r := m.Report(); r.Unoffered != 2 || r.Calls != 1 {
		t.Errorf("%d calls, %d of others", r.Calls, r.Unoffered)
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

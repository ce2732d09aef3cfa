package turn

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

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

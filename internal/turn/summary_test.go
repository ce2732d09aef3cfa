package turn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

func refusal(id string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventCallOutput, CallID: id}
}

// TestSummary feeds turns that summarise a conversation: each ends with the whole summary or without any,
// and nothing else is an output.
func TestSummary(t *testing.T) {
	completed := ended(codexrpc.StatusCompleted, nil)
	text := func(item, text string) []codexrpc.Event {
		return []codexrpc.Event{delta(item, text), whole(item, text)}
	}
	for name, test := range map[string]struct {
		events [][]codexrpc.Event
		want   string // empty: ErrNoSummary
	}{
		"plain":           {[][]codexrpc.Event{text("a", " All of it. "), {response(3), completed}}, "All of it."},
		"with reasoning":  {[][]codexrpc.Event{{thought("r", 0, "Hm.")}, text("a", "All."), {response(3), completed}}, "All."},
		"with an item":    {[][]codexrpc.Event{{reasoned("r", "sealed")}, text("a", "All."), {response(3), completed}}, "All."},
		"two messages":    {[][]codexrpc.Event{text("a", "One."), text("b", "Two."), {response(3), completed}}, "One.\n\nTwo."},
		"blocks are text": {[][]codexrpc.Event{text("a", "<use_tool><name>mine</name></use_tool>"), {response(3), completed}}, "<use_tool><name>mine</name></use_tool>"},
		"no text":         {[][]codexrpc.Event{{response(3), completed}}, ""},
		"white space":     {[][]codexrpc.Event{text("a", " \n"), {response(3), completed}}, ""},
		"after a call":    {[][]codexrpc.Event{text("a", "Wait."), {call("c", "mine", "{}"), response(3), refusal("c")}, text("b", "All."), {response(3), completed}}, "All."},
		"calls for ever":  {slices.Repeat([][]codexrpc.Event{{call("c", "mine", "{}"), response(3), refusal("c")}}, maxRefusals+1), ""},
		"cut":             {[][]codexrpc.Event{text("a", "All"), {ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: incompletePrefix + "max_output_tokens"})}}, ""},
		"tried again":     {[][]codexrpc.Event{{delta("a", "Al"), complaint("broken", true)}, text("b", "All."), {response(3), completed}}, "All."},
		"too long":        {[][]codexrpc.Event{text("a", strings.Repeat("long ", maxSummary/5+1)), {response(3), completed}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(&Options{Summary: true, ToolOptions: ToolOptions{TextualTools: TextualOn}, WebSearch: true, Items: true})
			var got []Output
			for _, e := range slices.Concat(test.events...) {
				got = append(got, m.Feed([]codexrpc.Event{e})...)
			}
			switch {
			case test.want == "" && (len(got) != 1 || !errors.Is(got[0].Err, ErrNoSummary)):
				t.Errorf("%+v", got)
			case test.want != "" && (len(got) != 2 || got[0].Kind != OutputSummary || got[0].Text != test.want || got[1].Kind != OutputFinish ||
				got[1].End.Finish != FinishStop || got[1].End.Usage.TotalTokens == 0):
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestSummaryRefusesCalls checks that a call of a turn that summarises is refused at once.
func TestSummaryRefusesCalls(t *testing.T) {
	source := newScript()
	source.refused = []codexrpc.Event{refusal("c"), delta("b", "All."), whole("b", "All."), response(3), ended(codexrpc.StatusCompleted, nil)}
	source.give(call("c", "mine", "{}"), response(3))
	m, l := New(&Options{Summary: true}), new(listener)
	if err := Drive(context.Background(), source, m, l, time.Hour); err != nil || !m.Done() {
		t.Errorf("%v, done %t, %q", err, m.Done(), l.heard)
	}
}

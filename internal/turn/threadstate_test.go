package turn

import (
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestRest looks at what turns leave on their threads.
func TestRest(t *testing.T) {
	say := func(text string) codexrpc.Event {
		return codexrpc.Event{Kind: codexrpc.EventTextDelta, ItemID: "m", Text: text}
	}
	said := func(text string) codexrpc.Event { return whole("m", text) }
	call := func(id, name string) codexrpc.Event {
		return codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: id, Name: name, Text: "{}"}
	}
	var (
		response = codexrpc.Event{Kind: codexrpc.EventResponseCompleted}
		end      = codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted}
		cut      = codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusInterrupted}
		block    = "<use_tool>\n<name>find</name>\n<q>x</q>\n</use_tool>"
	)
	text := map[string]bool{"a shorter text": true, "another text": true, "a lost delta": true, "text after its end": true, "another end": true}
	own := func(name string) (string, bool) { return name, name != "codex" }
	tools := func(opts ToolOptions) Options { return Options{ToolOptions: opts} }
	keepTail := new(bool)
	for name, test := range map[string]struct {
		opts   Options
		events []codexrpc.Event
		whole  bool
		waits  []string
	}{
		"text":               {Options{}, []codexrpc.Event{say("a"), said("a"), response, end}, true, nil},
		"text without end":   {Options{}, []codexrpc.Event{say("a"), response, end}, false, nil},
		"one without end":    {Options{}, []codexrpc.Event{say("a"), said("a"), delta("n", "b"), response, end}, false, nil},
		"the same text":      {Options{}, []codexrpc.Event{say("a"), say("b"), whole("m", "ab"), whole("m", "ab"), response, end}, true, nil},
		"a longer text":      {Options{}, []codexrpc.Event{say("a"), whole("m", "ab"), whole("m", "ab"), response, end}, true, nil},
		"a shorter text":     {Options{}, []codexrpc.Event{say("ab"), whole("m", "a"), response, end}, false, nil},
		"another text":       {Options{}, []codexrpc.Event{say("ab"), whole("m", "xyz"), response, end}, false, nil},
		"a lost delta":       {Options{}, []codexrpc.Event{say("a"), say("c"), whole("m", "abc"), response, end}, false, nil},
		"text after its end": {Options{}, []codexrpc.Event{whole("m", "a"), say("b"), response, end}, false, nil},
		"another end":        {Options{}, []codexrpc.Event{whole("m", "a"), whole("m", "ab"), response, end}, false, nil},
		"calls":              {Options{}, []codexrpc.Event{say("a"), said("a"), call("1", "find"), call("2", "find"), response}, true, []string{"1", "2"}},
		"block, xml":         {tools(ToolOptions{OutputMode: ModeXML, TextualTools: TextualOn}), []codexrpc.Event{say(block), said(block), response}, true, nil},
		"block, json":        {tools(ToolOptions{TextualTools: TextualOn}), []codexrpc.Event{say(block), said(block), response}, false, nil},
		"call, xml":          {tools(ToolOptions{OutputMode: ModeXML, TextualTools: TextualOn}), []codexrpc.Event{call("1", "find"), response}, false, []string{"1"}},
		"web search":         {Options{WebSearch: true}, []codexrpc.Event{{Kind: codexrpc.EventWebSearch, ItemID: "ws"}, say("a"), said("a"), response, end}, false, nil},
		"not yet":            {Options{}, []codexrpc.Event{say("a"), said("a"), response}, false, nil},
		"interrupted":        {Options{}, []codexrpc.Event{say("a"), cut}, false, nil},
		"stop sequence":      {Options{StopSequences: []string{"b"}}, []codexrpc.Event{say("abc"), said("abc"), response, end}, false, nil},
		"limit":              {Options{MaxTokens: 1}, []codexrpc.Event{say("a b c d"), said("a b c d"), response, end}, false, nil},
		"too many calls":     {tools(ToolOptions{ToolBlockMax: 1}), []codexrpc.Event{call("1", "find"), call("2", "take"), response}, false, []string{"1", "2"}},
		"first call":         {tools(ToolOptions{StopAfterTools: StopFirst}), []codexrpc.Event{call("1", "find"), call("2", "take"), response}, false, []string{"1", "2"}},
		"the only call":      {tools(ToolOptions{StopAfterTools: StopFirst}), []codexrpc.Event{call("1", "find"), response}, true, []string{"1"}},
		"equal ids":          {Options{}, []codexrpc.Event{call("1", "find"), call("1", "take"), response}, false, []string{"1"}},
		"no id":              {Options{}, []codexrpc.Event{call("", "find"), response}, false, nil},
		"codex's own":        {Options{ClientName: own}, []codexrpc.Event{call("1", "codex"), say("a"), said("a"), response, end}, false, nil},
		"dedup":              {tools(ToolOptions{ToolBlockDedup: true}), []codexrpc.Event{call("1", "find"), call("2", "find"), response}, false, []string{"1", "2"}},
		"suppressed tail":    {tools(ToolOptions{OutputMode: ModeXML, TextualTools: TextualOn}), []codexrpc.Event{say(block + " tail"), said(block + " tail"), response}, false, nil},
		"tail that is kept":  {tools(ToolOptions{OutputMode: ModeXML, TextualTools: TextualOn, SuppressTailAfterTools: keepTail}), []codexrpc.Event{say(block + " tail"), said(block + " tail"), response}, true, nil},
	} {
		m := New(&test.opts)
		m.Feed(test.events)
		if rest := m.ThreadState(); rest.InSync != test.whole || !slices.Equal(rest.PendingCalls, test.waits) {
			t.Errorf("%s: %+v", name, rest)
		}
		if m.Report().TextDiffers != text[name] {
			t.Errorf("%s: the text differs: %t", name, !text[name])
		}
	}
}

// TestSpent takes off what a thread had cost before.
func TestSpent(t *testing.T) {
	m := New(&Options{Spent: codexrpc.Usage{TotalTokens: 100, InputTokens: 90, OutputTokens: 10}})
	out := m.Feed([]codexrpc.Event{
		{Kind: codexrpc.EventTokenUsage, Usage: &codexrpc.Usage{TotalTokens: 130, InputTokens: 110, OutputTokens: 20}},
		{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted},
	})
	if got := out[len(out)-1].End.Usage; got != (codexrpc.Usage{TotalTokens: 30, InputTokens: 20, OutputTokens: 10}) {
		t.Errorf("spent %+v", got)
	}
}

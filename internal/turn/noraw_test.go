package turn

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

func thinkingEnded(item string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemReasoning, ItemID: item}
}

// TestNoRaw checks turns of threads without raw events: their outputs, and whether the
// thread has just what the client was given.
func TestNoRaw(t *testing.T) {
	done := ended(codexrpc.StatusCompleted, nil)
	for name, test := range map[string]struct {
		events []codexrpc.Event
		want   string
		whole  bool
	}{
		"a message":              {[]codexrpc.Event{begun("m"), delta("m", "Hello"), whole("m", "Hello"), done}, "text Hello, stop", true},
		"a thought":              {[]codexrpc.Event{begunThought("r"), thought("r", 0, "hm"), thinkingEnded("r"), begun("m"), delta("m", "Hello"), whole("m", "Hello"), done}, "reasoning r hm, thought r , text Hello, stop", true},
		"two messages":           {[]codexrpc.Event{begun("m"), delta("m", "Hello"), whole("m", "Hello"), begun("n"), delta("n", "again"), whole("n", "again"), done}, "text Hello, gap, text again, stop", false},
		"cut in a message":       {[]codexrpc.Event{begun("m"), delta("m", "Hello"), begun("n"), delta("n", "Hello"), whole("n", "Hello"), done}, "text Hello, failure", false},
		"cut in a thought":       {[]codexrpc.Event{begunThought("r"), begunThought("s"), thinkingEnded("s"), begun("m"), delta("m", "Hello"), whole("m", "Hello"), done}, "thought s , text Hello, stop", false},
		"cut, and Codex says so": {[]codexrpc.Event{begun("m"), complaint("stream disconnected", true), begun("n"), delta("n", "Hello"), whole("n", "Hello"), done}, "text Hello, stop", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(&Options{NoRaw: true, Items: true})
			var outputs []Output
			for i := range test.events {
				outputs = append(outputs, m.Feed(test.events[i:i+1])...)
			}
			if got := sayItems(outputs); got != test.want {
				t.Errorf("said\n%s\nnot\n%s", got, test.want)
			}
			if got := m.Rest().Whole; got != test.whole {
				t.Errorf("whole: %t", got)
			}
		})
	}
}

package turn

import (
	"slices"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestWebSearch feeds a turn with a web search and citations, cut in every way.
func TestWebSearch(t *testing.T) {
	message := func(item, text string) []codexrpc.Event {
		end := whole(item, text)
		end.Phase = "final_answer"
		return []codexrpc.Event{delta(item, text), end}
	}
	cited := func(item string, chars int) codexrpc.Event {
		return codexrpc.Event{Kind: codexrpc.EventAnnotations, ItemID: item, Text: "[1]", Index: chars}
	}
	var events []codexrpc.Event
	events = append(events, message("a", "prüfe")...)
	events = append(events,
		codexrpc.Event{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemWebSearch, ItemID: "ws"},
		codexrpc.Event{Kind: codexrpc.EventWebSearch, ItemID: "ws", Text: `{"type":"search"}`})
	events = append(events, message("b", "gefunden")...)
	events = append(events, cited("b", 8), response(3), ended(codexrpc.StatusCompleted, nil))
	for name, test := range map[string]struct {
		opts Options
		want string
	}{
		"items":   {Options{Items: true, WebSearch: true}, "text prüfe, gap final_answer, search, searched, gap, text gefunden, cited 5, gap final_answer, stop"},
		"chat":    {Options{WebSearch: true}, "text prüfe, text \n\n, text gefunden, cited 7, stop"},
		"stopped": {Options{WebSearch: true, StopSequences: []string{"fund"}}, "text prüfe, text \n\n, text ge, stop"},
		"without": {Options{Items: true}, "text prüfe, gap final_answer, search, searched, gap, text gefunden, gap final_answer, stop"},
	} {
		for _, size := range []int{1, 2, len(events)} {
			m := New(&test.opts)
			var outputs []Output
			for some := range slices.Chunk(events, size) {
				outputs = append(outputs, m.Feed(some)...)
			}
			if said := sayItems(outputs); said != test.want {
				t.Errorf("%s, %d at once: %s", name, size, said)
			}
		}
	}
}

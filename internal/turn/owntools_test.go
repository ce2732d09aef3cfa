package turn

import (
	"errors"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestOwnTools checks that a turn fails if Codex offers the model a tool of its own or has run
// one, and that it goes on if the model has only called what nobody knows.
func TestOwnTools(t *testing.T) {
	names := func(name string) (string, bool) { return name, name == "find" }
	strange, answer := call("c1", "exec", `{}`), codexrpc.Event{Kind: codexrpc.EventCallOutput, CallID: "c1"}
	refused := answer
	refused.Status = codexrpc.StatusFailed
	for name, c := range map[string]struct {
		search bool
		events []codexrpc.Event
		fails  bool
	}{
		"the client's":       {false, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "find\n"}}, false},
		"none":               {false, []codexrpc.Event{{Kind: codexrpc.EventOffered}}, false},
		"a search":           {true, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "find\nweb_search\n"}}, false},
		"a search, not on":   {false, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "web_search\n"}}, true},
		"one of Codex's":     {true, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "find\nexec\n"}}, true},
		"called":             {false, []codexrpc.Event{{Kind: codexrpc.EventOwnCall, Name: "exec"}}, true},
		"run":                {false, []codexrpc.Event{strange, response(1), answer}, true},
		"refused by Codex":   {false, []codexrpc.Event{strange, response(1), refused}, false},
		"a result of others": {false, []codexrpc.Event{strange, response(1), {Kind: codexrpc.EventCallOutput, CallID: "c2"}}, false},
	} {
		m := New(&Options{ClientName: names, WebSearch: c.search})
		var failure error
		for _, o := range m.Feed(c.events) {
			if o.Kind == OutputFailure {
				failure = o.Err
			}
		}
		if errors.Is(failure, ErrOwnTools) != c.fails {
			t.Errorf("%s: the failure is %v", name, failure)
		}
	}
}

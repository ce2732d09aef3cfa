package turn

import (
	"errors"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestOwnTools checks that a turn fails if Codex offers the model a tool of its own or has run
// one, or if the model makes a call that only Codex's tools have, and that it goes on if the model
// has only called what nobody knows.
func TestOwnTools(t *testing.T) {
	names := func(name string) (string, bool) { return name, name == "find" }
	strange, answer := call("c1", "exec", `{}`), codexrpc.Event{Kind: codexrpc.EventCallOutput, CallID: "c1"}
	refused := answer
	refused.Status = codexrpc.StatusFailed
	for name, c := range map[string]struct {
		search bool
		events []codexrpc.Event
		fails  error
	}{
		"the client's":       {false, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "find\n"}}, nil},
		"none":               {false, []codexrpc.Event{{Kind: codexrpc.EventOffered}}, nil},
		"a search":           {true, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "find\nweb_search\n"}}, nil},
		"a search, not on":   {false, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "web_search\n"}}, ErrOwnTools},
		"one of Codex's":     {true, []codexrpc.Event{{Kind: codexrpc.EventOffered, Text: "find\nexec\n"}}, ErrOwnTools},
		"called":             {false, []codexrpc.Event{{Kind: codexrpc.EventOwnCall, Name: "exec"}}, ErrInventedTool},
		"run":                {false, []codexrpc.Event{strange, response(1), answer}, ErrOwnTools},
		"refused by Codex":   {false, []codexrpc.Event{strange, response(1), refused}, nil},
		"a result of others": {false, []codexrpc.Event{strange, response(1), {Kind: codexrpc.EventCallOutput, CallID: "c2"}}, nil},
	} {
		m := New(&Options{ClientName: names, WebSearch: c.search})
		var failure error
		for _, o := range m.Feed(c.events) {
			if o.Kind == OutputFailure {
				failure = o.Err
			}
		}
		if !errors.Is(failure, c.fails) {
			t.Errorf("%s: the failure is %v", name, failure)
		}
	}
}

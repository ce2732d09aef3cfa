package turn

import (
	"math/rand/v2"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// callBegun and part are what some builds of Codex say of a call before it is complete.
func callBegun(id, name string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventItemStarted, ItemType: codexrpc.ItemToolCall, ItemID: id, Name: name}
}

func part(id, text string) codexrpc.Event {
	return codexrpc.Event{Kind: codexrpc.EventArgumentsDelta, ItemID: id, CallID: id, Text: text}
}

// partialCases are calls that come in fragments.
var partialCases = map[string]turnCase{
	"name, fragments, item":              {plainText, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), part("a", `"1"}`), findCall("a", "1"), response(1)}, "{0:1}|tool_calls"},
	"no name before the item":            {plainText, []codexrpc.Event{part("a", `{"q":"1"}`), findCall("a", "1"), response(1)}, "{0:1}|tool_calls"},
	"the item has the rest":              {plainText, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), findCall("a", "1"), response(1)}, "{0:1}|tool_calls"},
	"the item has other arguments":       {plainText, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":"2"}`), findCall("a", "1"), response(1)}, "{0:2}|tool_calls"},
	"an id of the item of its own":       {plainText, []codexrpc.Event{callBegun("i", "find"), {Kind: codexrpc.EventArgumentsDelta, ItemID: "i", CallID: "a", Text: `{"q":`}, findCall("a", "1"), response(1)}, "{0:1}|tool_calls"},
	"a block":                            {inXML, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), part("a", `"1"}`), findCall("a", "1"), response(1)}, "«(1)»{0:1}|tool_calls"},
	"text before and between":            {plainText, []codexrpc.Event{delta("m", "Hm"), callBegun("a", "find"), part("a", `{"q":`), delta("m", " so"), part("a", `"1"}`), findCall("a", "1"), response(1)}, "Hm{0:1} so|tool_calls"},
	"two at once":                        {plainText, []codexrpc.Event{callBegun("a", "find"), callBegun("b", "find"), part("b", `{"q":"2"}`), part("a", `{"q":`), findCall("b", "2"), part("a", `"1"}`), findCall("a", "1"), response(1)}, "{0:1}{1:2}|tool_calls"},
	"two at once in XML":                 {inXML, []codexrpc.Event{callBegun("a", "find"), part("b", `{"q":"2"}`), findCall("b", "2"), findCall("a", "1"), response(1)}, "«(1)»{0:1}«(2)»{1:2}|tool_calls"},
	"the twin of a block":                {plainText, append(said("m", written("[1]"), 99), callBegun("a", "find"), part("a", `{"q":`), findCall("a", "1"), response(1)), "{0:1}|tool_calls"},
	"no twin of a block":                 {plainText, append(said("m", written("[1]"), 99), callBegun("a", "find"), part("a", `{"q":`), findCall("a", "2"), response(1)), "{0:1}{1:2}|tool_calls"},
	"a block is its twin":                {plainText, append([]codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), findCall("a", "1")}, append(said("m", written("[1]"), 99), response(1))...), "{0:1}|tool_calls"},
	"begun after the item":               {plainText, []codexrpc.Event{findCall("a", "1"), callBegun("a", "find"), part("a", `{"q":"1"}`), response(1)}, "{0:1}|tool_calls"},
	"a tool that is not the client's":    {renamed, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), call("a", "find", `{"q":"1"}`), delta("m", "so"), whole("m", "so")}, "so|stop"},
	"above the limit":                    {oneJSON, []codexrpc.Event{findCall("a", "1"), callBegun("b", "find"), part("b", `{"q"`), response(1)}, "{0:1}|tool_calls"},
	"the model's response is cut":        {plainText, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), tooLong}, `{0:{"q":}|length`},
	"the model's response is cut in XML": {inXML, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), tooLong}, unwritable(`{\"q\":`) + "{0:{\"q\":}|length"},
	"the turn fails":                     {plainText, []codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`), ended(codexrpc.StatusFailed, nil)}, "{0:{\"q\":|failure"},
}

// joined joins the fragments of each call.
func joined(outputs []Output) (all []Output) {
	for _, o := range outputs {
		if last := len(all) - 1; last >= 0 && o.Kind == OutputCallArguments && all[last].Kind == OutputCallArguments && all[last].Call == o.Call {
			all[last].Text += o.Text
			continue
		}
		all = append(all, o)
	}
	return all
}

// TestPartialCalls: calls of which Codex sends fragments.
func TestPartialCalls(t *testing.T) {
	for name, c := range partialCases {
		t.Run(name, func(t *testing.T) {
			events := append(c.events, completed)
			for _, cut := range batchings {
				m, outputs := New(&c.opts), []Output(nil)
				for rest := events; len(rest) > 0; {
					n := cut(len(rest))
					outputs = append(outputs, m.Feed(rest[:n])...)
					rest = rest[n:]
				}
				if got := told(joined(outputs)); got != written(c.want) {
					t.Errorf("%s, want %s", got, written(c.want))
				}
			}
		})
	}
}

// TestNameFirst: the client gets the name at once, then each fragment, and in the end all of it.
func TestNameFirst(t *testing.T) {
	m := New(&Options{})
	for _, step := range []struct {
		event codexrpc.Event
		want  string
	}{
		{callBegun("a", "find"), "call 0 tool_0_0 find\n"},
		{part("a", `{"q":`), "arguments 0 {\"q\":\n"},
		{part("a", `"1"`), "arguments 0 \"1\"\n"},
		{findCall("a", "1"), "arguments 0 }\nend 0\n"},
	} {
		outputs := m.Feed([]codexrpc.Event{step.event})
		if got := say(outputs); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
		if last := outputs[len(outputs)-1]; last.Kind == OutputCallEnd && (last.Name != "find" || last.Text != `{"q":"1"}`) {
			t.Errorf("the end %+v", last)
		}
	}
	if m.Feed([]codexrpc.Event{response(1)}); !m.ThreadState().InSync {
		t.Error("the thread has what the client has, but is not kept")
	}
}

// TestPartialCuts: however the arguments are cut, the answer is that of a whole call.
func TestPartialCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	const arguments = `{"q":"Grüße 👋 \"x\""}`
	for _, opts := range []Options{plainText, inXML, suppressXML} {
		want := told(New(&opts).Feed([]codexrpc.Event{call("a", "find", arguments), response(1)}))
		for range 50 {
			events := []codexrpc.Event{callBegun("a", "find")}
			for rest := arguments; rest != "" && r.IntN(12) > 0; {
				n := 1 + r.IntN(len(rest))
				events = append(events, part("a", rest[:n]))
				rest = rest[n:]
			}
			events = append(events, call("a", "find", arguments), response(1))
			if got := told(joined(New(&opts).Feed(events))); got != want {
				t.Fatalf("%s, want %s: %+v", got, want, events)
			}
		}
	}
}

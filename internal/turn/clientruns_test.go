package turn_test

import (
	"math/rand/v2"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

var blockParts = []string{
	"<use_tool>", "</use_tool>", "<use_tool id=\"1\">", "<name>find</name>", "<name> </name>", "<name>", "</name>", "<q>x</q>", "<args>", "</args>",
	`{"q":"`, `"}`, `{"q":1}`, "so ", "\n", find(1), find(2), `<use_tool><name>find</name><args>{"q":"</use_tool><use_tool><name>x</name>"}</args></use_tool>`,
	"<use_tool><name>find</name><args>{</use_tool>",
	"<tool_call>", `{"name":"find","arguments":{"q":"`, `"}}</tool_call>`, `<tool_call>{"name":"find","arguments":{"q":"5"}}</tool_call>`,
}

// randomMessage returns a turn with one message of up to 14 parts and, if asked for, a structured call.
func randomMessage(r *rand.Rand, parts []string, withCall bool) (text string, events []codexrpc.Event) {
	for range 1 + r.IntN(14) {
		text += parts[r.IntN(len(parts))]
	}
	events = []codexrpc.Event{{Kind: codexrpc.EventTextDelta, ItemID: "m", Text: text}}
	if withCall {
		events = append(events, codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: "c", Name: "find", Text: `{"q":"9"}`})
	}
	return text, append(events, codexrpc.Event{Kind: codexrpc.EventResponseCompleted}, codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted})
}

// TestLimitOfCutText checks that the limit of calls does not depend on how the text is cut, also where
// a code fence hides blocks behind one that was given up.
func TestLimitOfCutText(t *testing.T) {
	r := draw.Random(t)
	parts := append([]string{"\n```\n", "\n```\n"}, blockParts...)
	for range draw.Cases(500, 3000) {
		text, events := randomMessage(r, parts, true)
		o := turn.Options{ToolOptions: turn.ToolOptions{
			OutputMode: turn.ModeJSON, TextualTools: turn.TextualOn, ToolBlockMax: 1 + r.IntN(3), SuppressTailAfterTools: new(false), StopAfterTools: turn.StopOff,
		}, Patterns: forms[:r.IntN(len(forms)+1)]}
		whole, report := feed(o, events, r)
		cut, other := feed(o, recut(events, r), r)
		if got, want := show(streamed(t, cut)), show(streamed(t, whole)); got != want || other.Truncated != report.Truncated {
			t.Fatalf("of %q:\nwhole %s, truncated %t\ncut   %s, truncated %t", text, want, report.Truncated, got, other.Truncated)
		}
	}
}

// TestOneCallAtMost: of a turn that may have one call, an Obsidian client runs one block at most,
// whatever the model writes; and whether that was too much does not depend on the form of the
// answer, nor on how the text is cut. In openai-json no block that is text replaces a call.
func TestOneCallAtMost(t *testing.T) {
	r := draw.Random(t)
	for range draw.Cases(500, 3000) {
		hasCall := r.IntN(2) == 0
		text, events := randomMessage(r, blockParts, hasCall)
		o := turn.Options{ToolOptions: turn.ToolOptions{
			OutputMode: turn.ModeXML, TextualTools: turn.TextualOn, ParallelToolCalls: new(false), SuppressTailAfterTools: new(r.IntN(2) == 0), StopAfterTools: turn.StopOff,
		}, Patterns: forms[:r.IntN(len(forms)+1)]}
		outputs, report := feed(o, events, r)
		xml := *streamed(t, outputs).Content
		if n := runBy(xml); n > 1 {
			t.Fatalf("%d blocks are run of %q, which was %q", n, xml, text)
		}
		outputs, _ = feed(o, recut(events, r), r)
		if cut := *streamed(t, outputs).Content; cut != xml {
			t.Fatalf("cut otherwise, %q is %q, not %q", text, cut, xml)
		}
		o.OutputMode = turn.ModeJSON
		if _, other := feed(o, events, r); other.Truncated != report.Truncated || other.Calls < report.Calls || hasCall && other.Calls != 1 {
			t.Fatalf("%q:\nobsidian-xml %+v\nopenai-json  %+v", text, report, other)
		}
	}
}

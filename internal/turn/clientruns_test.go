package turn_test

import (
	"strings"
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

// TestLimitOfCutText checks that the limit of calls does not depend on how the text is cut, also where
// a code fence hides blocks behind one that was given up.
func TestLimitOfCutText(t *testing.T) {
	r := draw.Random(t)
	parts := append([]string{"\n```\n", "\n```\n"}, blockParts...)
	for range draw.Cases(500, 3000) {
		var text strings.Builder
		for range 1 + r.IntN(14) {
			text.WriteString(parts[r.IntN(len(parts))])
		}
		o := turn.Options{ToolOptions: turn.ToolOptions{
			OutputMode: turn.ModeJSON, TextualTools: turn.TextualOn, ToolBlockMax: 1 + r.IntN(3), SuppressTailAfterTools: new(false), StopAfterTools: turn.StopOff,
		}, Patterns: forms[:r.IntN(len(forms)+1)]}
		events := []codexrpc.Event{
			{Kind: codexrpc.EventTextDelta, ItemID: "m", Text: text.String()}, {Kind: codexrpc.EventFunctionCall, CallID: "c", Name: "find", Text: `{"q":"9"}`},
			{Kind: codexrpc.EventResponseCompleted}, {Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted},
		}
		whole, report := feed(o, events, r)
		cut, other := feed(o, recut(events, r), r)
		if got, want := show(streamed(t, cut)), show(streamed(t, whole)); got != want || other.Truncated != report.Truncated {
			t.Fatalf("of %q:\nwhole %s, truncated %t\ncut   %s, truncated %t", text.String(), want, report.Truncated, got, other.Truncated)
		}
	}
}

// TestOneCallAtMost: of a turn that may have one call, an Obsidian client runs one block at most,
// whatever the model writes; and whether that was too much does not depend on the form of the
// answer, nor on how the text is cut. In openai-json no block that is text replaces a call.
func TestOneCallAtMost(t *testing.T) {
	r := draw.Random(t)
	for range draw.Cases(500, 3000) {
		var text strings.Builder
		for range 1 + r.IntN(12) {
			text.WriteString(blockParts[r.IntN(len(blockParts))])
		}
		events := []codexrpc.Event{{Kind: codexrpc.EventTextDelta, ItemID: "m", Text: text.String()}}
		if r.IntN(2) == 0 {
			events = append(events, codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: "c", Name: "find", Text: `{"q":"9"}`})
		}
		events = append(events, codexrpc.Event{Kind: codexrpc.EventResponseCompleted}, codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted})
		o := turn.Options{ToolOptions: turn.ToolOptions{
			OutputMode: turn.ModeXML, TextualTools: turn.TextualOn, ParallelToolCalls: new(false), SuppressTailAfterTools: new(r.IntN(2) == 0), StopAfterTools: turn.StopOff,
		}, Patterns: forms[:r.IntN(len(forms)+1)]}
		outputs, report := feed(o, events, r)
		xml := streamed(t, outputs)
		if n := runBy(*xml.Content); n > 1 {
			t.Fatalf("%d blocks are run of %q, which was %q", n, *xml.Content, text.String())
		}
		if outputs, _ := feed(o, recut(events, r), r); *streamed(t, outputs).Content != *xml.Content {
			t.Fatalf("cut otherwise, %q is %q, not %q", text.String(), *streamed(t, outputs).Content, *xml.Content)
		}
		o.OutputMode = turn.ModeJSON
		_, other := feed(o, events, r)
		if hasCall := len(events) > 3; other.Truncated != report.Truncated || other.Calls < report.Calls || hasCall && other.Calls != 1 {
			t.Fatalf("%q:\nobsidian-xml %+v\nopenai-json  %+v", text.String(), report, other)
		}
	}
}

package turn_test

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/toolcall"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// A turn is made of a string of bytes, so that the fuzzer can make turns: the
// first bytes choose the options, each further one adds to the events.

// choices reads bytes as choices.
type choices struct {
	data []byte
}

// next is the next choice among n; the first when the bytes have run out.
func (c *choices) next(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func (c *choices) options() turn.Options {
	o := turn.Options{
		IDSuffix: "xy",
		Grace:    turn.DefaultGrace,
		ToolOptions: turn.ToolOptions{
			OutputMode:             []turn.Mode{turn.ModeJSON, turn.ModeXML}[c.next(2)],
			StopAfterTools:         []turn.StopMode{turn.StopBurst, turn.StopFirst, turn.StopOff}[c.next(3)],
			TextualTools:           []turn.Textual{turn.TextualOn, turn.TextualOn, turn.TextualOn, turn.TextualOff}[c.next(4)],
			SuppressTailAfterTools: new(c.next(2) == 1),
			ToolBlockMax:           []int{0, 0, 1, 2}[c.next(4)],
			ToolBlockDedup:         c.next(3) == 2,
			ToolBlockDelimiter:     []string{"", "", "\n---\n"}[c.next(3)],
		},
	}
	if c.next(3) == 2 {
		o.AcceptTextual = func(name string) bool { return name == "find" }
	}
	if c.next(3) == 2 {
		o.Patterns = forms
	}
	return o
}

// forms are the textual forms beside <use_tool>.
var forms = []aggregator.NamedPattern{{Name: "tool_call", Pattern: toolcall.Pattern{}}}

// toolCall is a <tool_call> block of the tool find.
func toolCall(q int) string {
	return "<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\":\"ü " + strconv.Itoa(q) + "\"}}\n</tool_call>"
}

func find(q int) string {
	return "<use_tool>\n<name>find</name>\n<q>ü " + strconv.Itoa(q) + "</q>\n</use_tool>"
}

// pieces are what a model writes.
var pieces = []string{
	"Let me look.", " ", "\n\n", "Grüße 你好 👋🏽 ", "l", "ll", "aa", "aa",
	find(1), find(1), find(2), find(3), "<use_tool><name>note</name></use_tool>",
	`<use_tool><name>find</name><args>{"q":"ü 1"}</args></use_tool>`,
	`<use_tool><name>find</name><args>{"q":"</use_tool>"}</args></use_tool>`,
	`<use_tool><name>find</name><args>{"q":"`, "<use_tool>", "<use_tool id=\"1\">", "<use_tool/>", "</use_tool>", "<use_tools>",
	"<name>find</name>", "<", "<use_", "tool>", "<<use_tool>", "</args>", "\r\n", "\u00a0",
	"```\n", "~~~\n", "`", "a < b && b > c",
	toolCall(1), toolCall(1), toolCall(2), "<tool_call>", "</tool_call>", "<tool_", `{"name":"find","arguments":{"q":"`, `"}}`,
}

// writer makes events.
type writer struct {
	events  []codexrpc.Event
	message strings.Builder // the message under way
	item    int             // its number
	calls   int
	skipped bool // a delta of the message under way was lost
}

func (w *writer) id() string { return "msg_" + strconv.Itoa(w.item) }

func (w *writer) add(e codexrpc.Event) { w.events = append(w.events, e) }

// step adds what one choice of 16 says.
func (w *writer) step(c *choices) {
	switch c.next(16) {
	default:
		w.say(pieces[c.next(len(pieces))])
	case 8:
		w.whole()
		w.item++
		w.message.Reset()
		w.skipped = false
	case 9:
		w.add(codexrpc.Event{Kind: codexrpc.EventReasoningDelta, ItemID: "rs_1", Index: c.next(3), Text: "so " + find(1)})
	case 10:
		w.call("c"+strconv.Itoa(w.calls), `{"q":"ü `+strconv.Itoa(1+c.next(3))+`"}`)
	case 11:
		w.call("c"+strconv.Itoa(c.next(4)), []string{`{"q":"ü 1"}`, `{"q":`, `[]`, ``}[c.next(4)])
	case 12:
		w.add(codexrpc.Event{Kind: codexrpc.EventResponseCompleted, Usage: &codexrpc.Usage{TotalTokens: 5}})
	case 13:
		w.add(codexrpc.Event{Kind: codexrpc.EventTokenUsage, Usage: &codexrpc.Usage{TotalTokens: int64(c.next(20))}})
	case 14:
		// A part of the text that comes with the whole message only.
		w.message.WriteString("the rest" + pieces[c.next(len(pieces))])
		w.skipped = true
	case 15:
		w.whole() // repeated, or too early
	}
}

// say adds a delta, unless one before it was lost.
func (w *writer) say(text string) {
	w.message.WriteString(text)
	if !w.skipped {
		w.add(codexrpc.Event{Kind: codexrpc.EventTextDelta, ItemID: w.id(), Text: text})
	}
}

func (w *writer) whole() {
	w.add(codexrpc.Event{
		Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemAgentMessage, ItemID: w.id(), Text: w.message.String(),
	})
}

func (w *writer) call(id, arguments string) {
	w.calls++
	w.add(codexrpc.Event{Kind: codexrpc.EventFunctionCall, CallID: id, Name: "find", Text: arguments})
}

func (w *writer) end(c *choices) {
	e := codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted}
	switch c.next(8) {
	default:
		w.whole()
		w.add(codexrpc.Event{Kind: codexrpc.EventResponseCompleted, Usage: &codexrpc.Usage{TotalTokens: 7}})
	case 5:
		e.Status = codexrpc.StatusInterrupted
	case 6:
		e.Status = codexrpc.StatusFailed
		e.Err = &codexrpc.TurnError{Message: "Incomplete response returned, reason: max_output_tokens"}
	case 7:
		e.Status = codexrpc.StatusFailed
	}
	w.add(e)
}

// maxSteps bounds a generated turn.
const maxSteps = 60

func generate(data []byte) (turn.Options, []codexrpc.Event) {
	c := &choices{data}
	options := c.options()
	end := &choices{data}
	w := &writer{}
	for range maxSteps {
		if len(c.data) == 0 {
			break
		}
		w.step(c)
	}
	w.end(end)
	return options, w.events
}

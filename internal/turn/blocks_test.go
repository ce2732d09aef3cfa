package turn_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// hardTexts are the texts that have broken others.
var hardTexts = map[string]string{
	"a lone < at the end":     "a <",
	"look-alikes":             "<use_tools> <user> < use_tool> <USE_TOOL> </use_tool>",
	"an opener twice begun":   "<<use_tool><name>f</name></use_tool> <use<use_tool><name>f</name></use_tool>",
	"attributes":              `<use_tool id="1" x='>'>` + find(1) + "<use_tool/> <use_tool />",
	"CRLF and BOM":            "\ufeff<use_tool>\r\n<name>f</name>\r\n<q>x</q>\r\n</use_tool>\r\n",
	"no name":                 "<use_tool><q>x</q></use_tool> so",
	"an empty name":           "<use_tool><name> </name><q>x</q></use_tool> so",
	"the name at the end":     "<use_tool><q>x</q><name>f</name></use_tool> so",
	"two names":               "<use_tool><name>f</name><name>g</name></use_tool> so",
	"no parameters":           "<use_tool><name>f</name></use_tool>",
	"tags in JSON":            `<use_tool><name>f</name><args>{"a":"</args></use_tool><use_tool>"}</args></use_tool> so`,
	"escapes":                 `<use_tool><name>f</name><args>{"a":"\"\\\u0000\ud800","b":"\\"}</args></use_tool> so`,
	"entities and CDATA":      "<use_tool><name>f</name><a>R&amp;D &lt;</a><b><![CDATA[<x>]]></b></use_tool> so",
	"not JSON":                `<use_tool><name>f</name><args>{"a":"</args></use_tool> so "quoted" <use_tool>`,
	"multibyte":               "Grüße 你好 👋🏽<use_tool><name>f</name><q>é你👋</q></use_tool>你",
	"nested":                  "<use_tool><name>f</name><q>" + find(1) + "</q></use_tool> so",
	"never closed":            "so <use_tool><name>f</name><q>x</q>",
	"text on all sides":       "before " + find(1) + " between " + find(2) + " after",
	"identical":               find(1) + find(1) + "\n" + find(1),
	"repeated text":           "l l ll aa aa aaaa" + find(1) + "l l ll aa aa aaaa",
	"many":                    strings.Repeat("<use_tool><name>f</name></use_tool>", 30),
	"in a fence":              "```xml\n" + find(1) + "\n```\n" + find(2) + "\n~~~\n" + find(3),
	"a fence within a block":  "<use_tool><name>f</name><q>```\n</q></use_tool>\n" + find(1),
	"white space and nothing": " \n\t\r\n\u00a0\u3000",
	"another form":            "so " + toolCall(1) + find(2) + toolCall(1) + " so",
	"another form, broken":    "The <tool_call> tag. <tool_call>{\"name\":\"find\n" + toolCall(1) + "<tool_call>{\"name\":\"" + find(1) + "\"}</tool_call>",
	"another form, unclosed":  toolCall(1) + "<tool_call>{\"name\": \"find\", \"arguments\": {\"q\":\"ü",
	"another form in a fence": "```\n" + toolCall(1) + "\n```\n" + toolCall(2) + "\n~~~\n" + find(3),
	"inline code":             "Write `<use_tool>` and `</use_tool>`.",
}

// TestHardTexts: each text, cut at any byte and into deltas of several sizes, gives what it gives
// at once, in both modes; and the obsidian one is the text itself where nothing is filtered.
func TestHardTexts(t *testing.T) {
	for name, text := range hardTexts {
		t.Run(name, func(t *testing.T) {
			random := draw.Random(t)
			for _, mode := range []turn.Mode{turn.ModeJSON, turn.ModeXML} {
				for _, tools := range []turn.ToolOptions{
					{StopAfterTools: turn.StopOff, SuppressTailAfterTools: new(false)},
					{},
					{StopAfterTools: turn.StopFirst, SuppressTailAfterTools: new(false)},
				} {
					tools.OutputMode, tools.TextualTools = mode, turn.TextualOn
					checkHardText(t, random, turn.Options{ToolOptions: tools}, text)
					checkHardText(t, random, turn.Options{ToolOptions: tools, Patterns: forms}, text)
				}
			}
		})
	}
}

func checkHardText(t *testing.T, random *rand.Rand, o turn.Options, text string) {
	t.Helper()
	outputs, report := ofText(o, text, len(text))
	want := streamed(t, outputs)
	if whole := notStreamed(t, outputs); !reflect.DeepEqual(whole, want) {
		t.Errorf("streamed %s\nnot streamed %s", show(want), show(whole))
	}
	if unfiltered := o.StopAfterTools == turn.StopOff && !*o.SuppressTailAfterTools; o.OutputMode == turn.ModeXML && unfiltered && len(o.Patterns) == 0 && *want.Content != text {
		t.Errorf("content %q, written %q", *want.Content, text)
	}
	var cuts [][]int
	for _, size := range []int{1, 2, 3, 5, 7, 8} {
		cuts = append(cuts, []int{size})
	}
	for at := 1; at < min(len(text), 150); at++ {
		if random.IntN(4) < draw.Cases(1, 4) {
			cuts = append(cuts, []int{at, len(text)})
		}
	}
	body := bodyOf(outputs)
	for _, sizes := range cuts {
		outputs, again := ofText(o, text, sizes...)
		if got := bodyOf(outputs); got != body || !reflect.DeepEqual(again, report) {
			t.Fatalf("%s, %s, cut at %d:\ngot  %s %+v\nwant %s %+v", o.OutputMode, o.StopAfterTools, sizes, got, again, body, report)
		}
	}
}

func bodyOf(outputs []turn.Output) string {
	b := chat.NewEncoder(chat.Meta{})
	b.Begin(nil)
	for _, o := range outputs {
		_ = b.Write(0, o)
	}
	return string(b.JSON())
}

// ofText is what a turn of one message gives, in deltas of these sizes.
func ofText(o turn.Options, text string, sizes ...int) ([]turn.Output, turn.Report) {
	m := turn.New(&o)
	return m.Feed(deltasOf(text, sizes...)), m.Report()
}

// deltasOf is a turn of one message in deltas of these sizes, the last of which goes on.
func deltasOf(text string, sizes ...int) (events []codexrpc.Event) {
	for rest := text; rest != ""; {
		n := min(sizes[0], len(rest))
		if len(sizes) > 1 {
			sizes = sizes[1:]
		}
		events = append(events, codexrpc.Event{Kind: codexrpc.EventTextDelta, ItemID: "m", Text: rest[:n]})
		rest = rest[n:]
	}
	return append(events,
		codexrpc.Event{Kind: codexrpc.EventItemCompleted, ItemType: codexrpc.ItemAgentMessage, ItemID: "m", Text: text},
		codexrpc.Event{Kind: codexrpc.EventResponseCompleted},
		codexrpc.Event{Kind: codexrpc.EventTurnCompleted, Status: codexrpc.StatusCompleted})
}

package turn

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// turnCase is a turn, without its end, and what it tells.
type turnCase struct {
	opts   Options
	events []codexrpc.Event
	want   string
}

// The settings of the cases below.
var (
	plainText   = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}}
	inXML       = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}
	offText     = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopOff, SuppressTailAfterTools: keepTail}}
	suppress    = Options{ToolOptions: ToolOptions{TextualTools: TextualOn}}
	suppressXML = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML}}
	oneXML      = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, ToolBlockMax: 1}}
	oneJSON     = Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1}}
	undeclaring = Options{AcceptTextual: func(name string) bool { return name == "find" }, ToolOptions: ToolOptions{TextualTools: TextualOn}}
	renamed     = Options{ClientName: func(name string) (string, bool) { return strings.CutPrefix(name, "codex_") }, ToolOptions: ToolOptions{TextualTools: TextualOn, SuppressTailAfterTools: keepTail}}
)

// tooLong is the end of a turn whose response was cut.
var tooLong = ended(codexrpc.StatusFailed, &codexrpc.TurnError{Message: incompletePrefix + "max_output_tokens"})

func findCall(id, q string) codexrpc.Event { return call(id, "find", `{"q":"`+q+`"}`) }

// textCases are texts, in messages or not.
var textCases = map[string]turnCase{
	"nothing but blocks":            {plainText, said("m", written("\n [1]\n\n[2]\r\n\u00a0"), 99), "{0:1}{1:2}|tool_calls"},
	"nothing but white space":       {plainText, said("m", " \n\n ", 1), " \n\n |stop"},
	"white space begins a text":     {plainText, said("m", " \n a \n", 1), " \n a \n|stop"},
	"nothing at all":                {plainText, nil, "|stop"},
	"a block and a text in a fence": {plainText, said("m", written("```\n[1]\n```\n[2]"), 99), "```\n[1]\n```\n{0:2}|tool_calls"},
	"a fence ends with its message": {plainText, append(said("m", "```\ncode", 99), said("n", written("[1]"), 99)...), "```\ncode\n\n{0:1}|tool_calls"},
	"a fence is nothing in XML":     {inXML, said("m", written("```\n[1]\n```"), 99), "```\n«[1]»{0:1}\n```|tool_calls"},
	"a block ends with its message": {inXML, append(said("m", "<use_tool><name>find</name>", 99), said("n", "</use_tool>", 99)...), "<use_tool><name>find</name>\n\n</use_tool>|stop"},
	"a tag ends with its message":   {inXML, append(said("m", "<use_", 99), said("n", "tool>", 99)...), "<use_\n\ntool>|stop"},
	"attributes":                    {inXML, said("m", `a <use_tool id="1"><name>find</name><q>1</q></use_tool> b <use_tool id="2"> c`, 99), `a «<use_tool><name>find</name><q>1</q></use_tool>»{0:1} b <use_tool id="2"> c|tool_calls`},
	"attributes in JSON":            {plainText, said("m", `a <use_tool id="1"><name>find</name><q>1</q></use_tool> b`, 99), `a {0:1} b|tool_calls`},
	"attributes at the limit":       {oneXML, said("m", "<use_tool\nid='1'><name>find</name><q>1</q></use_tool><use_tool><name>find</name>", 99), "«<use_tool><name>find</name><q>1</q></use_tool>»{0:1}|tool_calls"},
	"two messages interleaved": {inXML, []codexrpc.Event{delta("m", "one"), delta("n", written("[1]")[:20]), whole("m", "one"), delta("n", written("[1]")[20:]), whole("n", written("[1]"))},
		"one\n\n«[1]»{0:1}|tool_calls"},
	"a block in a whole that knows more": {inXML, []codexrpc.Event{delta("m", "a <use_"), whole("m", written("a [1]"))}, "a «[1]»{0:1}|tool_calls"},
	"a whole without deltas":             {inXML, []codexrpc.Event{whole("m", written("a [1]"))}, "a «[1]»{0:1}|tool_calls"},
	"a completed message that repeats":   {inXML, append(said("m", written("a [1]"), 3), whole("m", written("a [1]")), delta("m", written("[1]"))), "a «[1]»{0:1}|tool_calls"},
	"reasoning quotes a block":           {inXML, []codexrpc.Event{thought("r", 0, written("[1]"))}, written("~[1]~|stop")},
}

// twinCases are blocks and structured calls of the same action.
var twinCases = map[string]turnCase{
	"twins, the text first":       {suppress, append(said("m", written("Hm [1] so"), 99), findCall("a", "1"), response(1)), "Hm {0:1}|tool_calls"},
	"twins, the text last":        {suppress, append([]codexrpc.Event{findCall("a", "1")}, append(said("m", written("Hm [1] so"), 99), response(1))...), "{0:1}|tool_calls"},
	"twins in XML, text first":    {inXML, append(said("m", written("Hm [1]"), 99), findCall("a", "1"), response(1)), "Hm «[1]»{0:1}|tool_calls"},
	"twins in XML, text last":     {inXML, append([]codexrpc.Event{findCall("a", "1")}, append(said("m", written("Hm [1]"), 99), response(1))...), "«(1)»{0:1}Hm |tool_calls"},
	"calls of other types":        {Options{ToolOptions: ToolOptions{ToolBlockDedup: true, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{call("a", "find", `{"q":"1"}`), call("b", "find", `{"q":1}`), call("c", "find", `{"q":"1"}`), response(1)}, `{0:1}{1:{"q":1}}|tool_calls`},
	"other unknown arguments":     {suppress, append(said("m", "<use_tool><name>webSearch</name><q>cats</q></use_tool>", 99), call("a", "webSearch", `{"q":"dogs"}`), response(1)), "{0:cats}{1:dogs}|tool_calls"},
	"a text that reads null":      {Options{ToolOptions: ToolOptions{ToolBlockDedup: true, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{findCall("a", "null"), call("b", "find", "{}"), response(1)}, "{0:null}{1:{}}|tool_calls"},
	"two pairs of twins":          {plainText, append(said("m", written("[1][1]"), 99), findCall("a", "1"), findCall("b", "1"), response(1)), "{0:1}{1:1}|tool_calls"},
	"one twin of two":             {plainText, append(said("m", written("[1]"), 99), findCall("a", "1"), findCall("b", "1"), response(1)), "{0:1}{1:1}|tool_calls"},
	"twins when the model may go": {offText, append(said("m", written("[1]"), 99), findCall("a", "1"), response(1), delta("n", "late")), "{0:1}|tool_calls"},
	"twins at the limit": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}, append(said("m", written("[1]"), 99), findCall("a", "1"), response(1)),
		"{0:1}|tool_calls"},
}

// givenUpCases are blocks behind a call that are no calls.
var givenUpCases = map[string]turnCase{
	"unclosed":                   {suppressXML, said("m", written("[1] and <use_tool><name>find</name><q>2</q>"), 99), "«[1]»{0:1} and <use_tool><name>find</name><q>2</q>|tool_calls"},
	"nameless":                   {suppressXML, said("m", written("[1] and <use_tool><q>2</q></use_tool> so"), 99), "«[1]»{0:1} and «<use_tool><q>2</q></use_tool>»|tool_calls"},
	"nested":                     {suppressXML, said("m", written("[1]<use_tool><name>find</name><q>see [2]</q></use_tool> so"), 99), "«[1]»{0:1}<use_tool><name>find</name><q>see «[2]»{1:2}|tool_calls"},
	"too large":                  {suppressXML, said("m", block("1")+tooLarge, 1<<20), "«[1]»{0:1}" + tooLarge + "|tool_calls"},
	"tail behind the next call":  {suppressXML, said("m", written("[1]<use_tool></use_tool> so [2] bye"), 99), "«[1]»{0:1}«<use_tool></use_tool>» so «[2]»{1:2}|tool_calls"},
	"prose about the tag":        {suppressXML, said("m", written("[1] The <use_tool> tag of it, and so on"), 99), "«[1]»{0:1}|tool_calls"},
	"prose about it in JSON":     {suppress, said("m", written("[1] The <use_tool> tag of it, and so on"), 99), "{0:1}|tool_calls"},
	"a block that runs too much": {oneXML, said("m", `<use_tool><name>find</name><args>{"q":"</use_tool><use_tool><name>x</name>"}</args></use_tool>`, 999), "«<use_tool>\n<name>find</name>\n<q></use_tool ><use_tool><name>x</name ></q>\n</use_tool>»{0:</use_tool><use_tool><name>x</name>}|tool_calls"},
	"nameless, above the limit":  {oneXML, said("m", written("[1]<use_tool></use_tool> so"), 99), "«[1]»{0:1}«<use_tool></use_tool>»|tool_calls"},
	"closed, above the limit":    {oneXML, said("m", written("[1] a <use_tool><name>find</name><args>{</use_tool> so"), 99), "«[1]»{0:1}|tool_calls"},
	"it is text in JSON":         {oneJSON, said("m", written("[1] a <use_tool><name>find</name><args>{</use_tool> so"), 99), "{0:1} a «<use_tool><name>find</name><args>{</use_tool>»|tool_calls"},
	"a call behind it in JSON":   {oneJSON, said("m", written("a <use_tool><name>find</name><args>{</use_tool> so [1]"), 99), "a «<use_tool><name>find</name><args>{</use_tool>» so {0:1}|tool_calls"},
	"in the next message":        {suppressXML, append(said("m", written("[1] one"), 99), said("n", "<use_tool><name>find</name>", 99)...), "«[1]»{0:1} one\n\n<use_tool><name>find</name>|tool_calls"},
	"behind a structured call":   {suppressXML, []codexrpc.Event{findCall("a", "1"), delta("m", "so <use_tool>"), whole("m", "so <use_tool>"), response(1)}, "«(1)»{0:1}so <use_tool>|tool_calls"},
	"before a structured call":   {suppressXML, append(said("m", "<use_tool><name>find</name>", 99), findCall("a", "1"), response(1)), "<use_tool><name>find</name></use_tool>«(1)»{0:1}|tool_calls"},
	"in JSON":                    {suppress, said("m", written("[1] and <use_tool><name>find</name><q>2</q>"), 99), "{0:1} and <use_tool><name>find</name><q>2</q>|tool_calls"},
	"text of a tool in JSON":     {undeclaring, said("m", strings.ReplaceAll(block("1"), "find", "seek")+written("[1] so ")+strings.ReplaceAll(block("2"), "find", "seek"), 7), strings.ReplaceAll(written("«[1]»{0:1} so «[2]»|tool_calls"), "find", "seek")},
	"above the limit":            {oneXML, said("m", written("[1] and <use_tool><name>find</name>"), 99), "«[1]»{0:1}|tool_calls"},
	"above the limit in JSON":    {oneJSON, said("m", written("[1] and <use_tool><name>find</name>"), 99), "{0:1} and <use_tool><name>find</name>|tool_calls"},
	"behind a repeated block":    {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, ToolBlockDedup: true}}, said("m", written("[1][1]<use_tool><name>find</name>"), 99), "«[1]»{0:1}<use_tool><name>find</name>|tool_calls"},
	"behind the first and last":  {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, OutputMode: ModeXML, StopAfterTools: StopFirst}}, said("m", written("[1]<use_tool><name>find</name>"), 99), "«[1]»{0:1}|tool_calls"},
	"open when the turn fails":   {suppressXML, []codexrpc.Event{delta("m", written("[1] and <use_tool>")), ended(codexrpc.StatusFailed, nil)}, "«[1]»{0:1} and <use_tool>|failure"},
	"open where the text is cut": {suppressXML, []codexrpc.Event{delta("m", written("[1] and <use_tool>")), tooLong}, "«[1]»{0:1} and <use_tool>|length"},
}

// tooLarge is a block above the limit of one.
var tooLarge = "<use_tool><name>find</name><q>" + strings.Repeat("x", aggregator.DefaultMaxBlock) + "</q></use_tool>"

// cutCases are answers that were cut.
var cutCases = map[string]turnCase{
	"length": {plainText, []codexrpc.Event{delta("m", "It stops be"), tooLong}, "It stops be|length"},
	"length after a call": {inXML, append(said("m", written("[1] and "), 99), tooLong),
		"«[1]»{0:1} and |tool_calls"},
	"length within a block":         {inXML, []codexrpc.Event{delta("m", written("[1]<use_tool>")), tooLong}, "«[1]»{0:1}<use_tool>|length"},
	"length within a whole message": {inXML, append(said("m", written("[1]<use_tool>"), 99), tooLong), "«[1]»{0:1}<use_tool>|length"},
	"length after an open block":    {inXML, append(said("m", written("[1]<use_tool>"), 99), delta("n", "so"), tooLong), "«[1]»{0:1}<use_tool>\n\nso|tool_calls"},
	"length within a second call":   {plainText, []codexrpc.Event{findCall("a", "1"), call("b", "find", `{"q":"`), tooLong}, "{0:1}{1:}|length"},
	"length after a second call":    {plainText, []codexrpc.Event{findCall("a", "1"), findCall("b", "2"), tooLong}, "{0:1}{1:2}|tool_calls"},
}

// endCases are ends that close a block, or come too late to matter.
var endCases = map[string]turnCase{
	"the end closes a block":    {plainText, []codexrpc.Event{delta("m", brokenBlock)}, "{0:" + brokenArguments + "}|tool_calls"},
	"the end of a message does": {plainText, []codexrpc.Event{delta("m", brokenBlock), whole("m", brokenBlock), delta("n", "x")}, "{0:" + brokenArguments + "}\n\nx|tool_calls"},
	"the next message closes it": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopFirst, OutputMode: ModeXML, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", brokenBlock), delta("n", "x")},
		"«" + brokenBlock + "»{0:" + brokenArguments + "}|tool_calls"},
	"a failure closes it": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, StopAfterTools: StopFirst, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", brokenBlock), ended(codexrpc.StatusInterrupted, nil)},
		"{0:" + brokenArguments + "}|tool_calls"},
	"a failure after the limit": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", written("[1][2]")), complaint("again", true), ended(codexrpc.StatusFailed, nil)},
		"{0:1}|tool_calls"},
	"a failure that closes a block above the limit": {Options{ToolOptions: ToolOptions{TextualTools: TextualOn, ToolBlockMax: 1, SuppressTailAfterTools: keepTail}}, []codexrpc.Event{delta("m", block("1")+brokenBlock), ended(codexrpc.StatusFailed, nil)},
		"{0:1}|tool_calls"},
	"a failure flushes": {inXML, []codexrpc.Event{delta("m", "a <use_tool><name>f"), ended(codexrpc.StatusFailed, nil)}, "a <use_tool><name>f|failure"},
}

// oddCases are calls as no good model makes them.
var oddCases = map[string]turnCase{
	"no name that a client could be told": {inXML, said("m", longName, 999), "«" + longName + "»|stop"},
	"no object in XML":                    {inXML, []codexrpc.Event{call("a", "find", `[true]`), response(1)}, unwritable(`[true]`) + "{0:[true]}|tool_calls"},
	"no JSON in XML":                      {inXML, []codexrpc.Event{call("a", "find", `{"q":`), findCall("b", "1"), response(1)}, unwritable(`{\"q\":`) + written("{0:{\"q\":}«(1)»{1:1}|tool_calls")},
	"a block for arguments in XML":        {inXML, []codexrpc.Event{call("a", "find", block("1")), response(1)}, unwritable(strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(block("1"))) + "{0:" + block("1") + "}|tool_calls"},
	"an argument that cannot be a tag":    {inXML, []codexrpc.Event{call("a", "find", `{"a b":1}`), response(1)}, unwritable(`{\"a b\":1}`) + `{0:{"a b":1}}|tool_calls`},
	"no object in JSON":                   {plainText, []codexrpc.Event{call("a", "find", `{"q":`), response(1)}, `{0:{"q":}|tool_calls`},
	"no arguments at all in XML":          {inXML, []codexrpc.Event{call("a", "find", ``), response(1)}, "«<use_tool>\n<name>find</name>\n</use_tool>»{0}|tool_calls"},
	"an argument that stands twice":       {inXML, []codexrpc.Event{call("a", "find", `{"q":"x","q":"1"}`), response(1)}, `«(1)»{0:x","q":"1}|tool_calls`},
	"a block by Codex's name":             {renamed, said("m", strings.Replace(block("1"), "find", "codex_find", 1), 9), "{0:1}|tool_calls"},
	"one id, other arguments":             {plainText, []codexrpc.Event{findCall("a", "1"), findCall("a", "2"), findCall("a", "1"), response(1)}, "{0:1}{1:2}|tool_calls"},
	"one id, other arguments in XML":      {inXML, []codexrpc.Event{findCall("a", "1"), findCall("a", "2"), findCall("a", "2"), response(1)}, "«(1)»{0:1}«(2)»{1:2}|tool_calls"},
	"one id, other names":                 {plainText, []codexrpc.Event{findCall("a", "1"), call("a", "note", `{"q":"1"}`), response(1)}, "{0:1}{1:1}|tool_calls"},
	"a call without an id":                {plainText, []codexrpc.Event{findCall("", "1"), findCall("", "2"), response(1)}, "{0:1}{1:2}|tool_calls"},
}

// unwritable is what stands for a call of find in the place of a block.
func unwritable(quoted string) string {
	return `[The call of "find" cannot be written as a block. Its arguments: "` + quoted + `"]`
}

// TestTurns: what does not depend on the setting alone.
func TestTurns(t *testing.T) {
	for _, cases := range []map[string]turnCase{textCases, twinCases, givenUpCases, cutCases, endCases, oddCases} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) { checkRun(t, c.opts, append(c.events, completed), c.want) })
		}
	}
}

// brokenBlock is a block only because the message ends there: until then the
// closing tag might be part of a JSON string.
const (
	brokenBlock     = `<use_tool><name>find</name><args>{"q":"1}</args></use_tool>`
	brokenArguments = `1}`
)

// longName is a block with a name that no API takes.
var longName = "<use_tool><name>" + strings.Repeat("n", 5000) + "</name></use_tool>"

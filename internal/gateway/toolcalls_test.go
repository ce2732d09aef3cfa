package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/test/fakecodex"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
	"github.com/caddy-codex/caddy-codex/sse"
)

// begun are the steps of a turn that says these lines, each the method of a notification and its
// params without the ids of the thread and the turn, and then does no more.
func begun(a fakecodex.Asked, lines ...string) []fakecodex.Step {
	steps := []fakecodex.Step{{Message: `{"id":0,"result":{"turn":{"id":"` + a.Turn + `"}}}`}}
	for _, line := range lines {
		method, params, _ := strings.Cut(line, " ")
		steps = append(steps, fakecodex.Step{Message: fmt.Sprintf(
			`{"method":%q,"params":{"threadId":%q,"turnId":%q,%s}`, method, a.Thread, a.Turn, params[1:])})
	}
	return steps
}

// saying is an app-server whose turns say these lines, and end.
func saying(t testing.TB, lines ...string) *fakeUpstream {
	return newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
		return append(begun(a, lines...), begun(a, `turn/completed {"turn":{"id":"`+a.Turn+`","status":"completed"}}`)[1])
	}})
}

// stalling is an app-server whose turns say these lines, and go on.
func stalling(t testing.TB, lines ...string) *fakeUpstream {
	return newFakeUpstream(t, fakecodex.Options{Turn: func(a fakecodex.Asked) []fakecodex.Step {
		return append(begun(a, lines...), fakecodex.Step{Pause: patience, Message: `{}`})
	}})
}

// calling is an app-server whose turns say these lines in one response of the model.
func calling(t testing.TB, lines ...string) *fakeUpstream {
	return saying(t, slices.Concat(lines, []string{`rawResponse/completed {"usage":{"totalTokens":2,"inputTokens":1,"outputTokens":1}}`})...)
}

// The lines of Codex about calls. Only some builds send parts of arguments, and no release does.

func rawCall(item, id, name, arguments string) string {
	return `rawResponseItem/completed {"item":{"type":"function_call","id":"` + item + `","call_id":"` + id + `","name":"` + name + `","arguments":` + wirejson.Quote(arguments) + `}}`
}

func callBegun(id, name string) string {
	return `item/started {"item":{"type":"dynamicToolCall","id":"` + id + `","tool":"` + name + `","arguments":null,"status":"inProgress"}}`
}

func argumentsPart(id, text string) string {
	return `item/dynamicToolCall/argumentsDelta {"itemId":"` + id + `","callId":"` + id + `","delta":` + wirejson.Quote(text) + `}`
}

func textPart(text string) string {
	return `item/agentMessage/delta {"itemId":"m","delta":` + wirejson.Quote(text) + `}`
}

func askCalls(t *testing.T, u *fakeUpstream, options turn.ToolOptions, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	g := newGateway(u, Options{MaxConcurrent: 2})
	options.StopAfterTools = cmp.Or(options.StopAfterTools, turn.StopBurst)
	g.opts.Tools = options
	g.opts.StopGrace = patience // each answer comes to its end
	w := post(g, path, body)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

const (
	chatCalls      = `{"model":"m","stream":%t,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}`
	responsesCalls = `{"model":"m","stream":%t,"store":false,"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}`
)

var suffix = regexp.MustCompile(`(tool_\d+_\d+)_[0-9a-z]+`)

// deltas lists what the chunks of a chat stream bring: content in quotes, calls as index, id and
// name, and their arguments, one for each chunk.
func deltas(t *testing.T, stream string) string {
	t.Helper()
	var all []string
	for e, err := range sse.Read(strings.NewReader(stream)) {
		must.OK(t, err)
		for _, choice := range gjson.Get(e.Data, "choices").Array() {
			if text := choice.Get("delta.content").String(); text != "" {
				all = append(all, strconv.Quote(text))
			}
			for _, call := range choice.Get("delta.tool_calls").Array() {
				index := call.Get("index").Int()
				if id := call.Get("id").String(); id != "" {
					all = append(all, fmt.Sprintf("%d:%s:%s", index, suffix.ReplaceAllString(id, "$1"), call.Get("function.name")))
				}
				if arguments := call.Get("function.arguments").String(); arguments != "" {
					all = append(all, fmt.Sprintf("%d+%s", index, arguments))
				}
			}
		}
	}
	return strings.Join(all, " ")
}

// TestToolCallsOfCodex: what Codex says of calls, through the whole way. The names are those of
// the criteria of story 2.8.
func TestToolCallsOfCodex(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		text  string   // before the calls
		calls []string // name and arguments
	}{
		"AC01 partials": {[]string{callBegun("c", "f"), argumentsPart("c", `{"q":`), argumentsPart("c", `1}`), rawCall("i", "c", "f", `{"q":1}`)},
			"", []string{`f {"q":1}`}},
		"AC04 order": {[]string{rawCall("i", "c", "g", "{}"), rawCall("j", "d", "f", "[]")},
			"", []string{`g {}`, `f []`}},
		"AC04 an item of its own": {[]string{rawCall("i", "c", "f", "{}"), rawCall("j", "c", "f", "{}")},
			"", []string{`f {}`, `f {}`}},
		"AC04 arguments of its own": {[]string{rawCall("", "c", "f", `{"q":0}`), rawCall("", "c", "f", `{"q":1}`)},
			"", []string{`f {"q":0}`, `f {"q":1}`}},
		"AC06 a block": {[]string{textPart("Hm <use_tool><name>f</name>"), textPart("<q>1</q></use_tool> so")},
			"Hm ", []string{`f {"q":"1"}`}},
		"AC06 its twin": {[]string{textPart("<use_tool><name>f</name><q>1</q></use_tool>"), rawCall("i", "c", "f", `{"q": 1}`)},
			"", []string{`f {"q":"1"}`}},
		"AC06 mixed content": {[]string{textPart("<use_tool><name>f</name><content>Use <b>bold</b> text</content></use_tool>")},
			"", []string{`f {"content":"Use <b>bold</b> text"}`}},
		"AC07 noise": {[]string{`item/unheardOf {"x":1}`, argumentsPart("nobody", "x"), rawCall("i", "c", "f", `{"never": closed`)},
			"", []string{`f {"never": closed`}},
		"AC09 an id like ours": {[]string{rawCall("i", "c", "f", "{}"), rawCall("j", "tool_0_0", "f", "{}")},
			"", []string{`f {}`, `f {}`}},
		"AC11 repeated": {[]string{rawCall("i", "c", "f", "{}"), rawCall("i", "c", "f", "{}"), rawCall("", "d", "f", ""), rawCall("", "d", "f", "")},
			"", []string{`f {}`, `f `}},
		"AC12 name first": {[]string{callBegun("c", "f"), rawCall("i", "c", "f", "{}")},
			"", []string{`f {}`}},
		"AC13 interleaved": {[]string{callBegun("c", "f"), callBegun("d", "g"), argumentsPart("d", "[1"), argumentsPart("c", "{"), argumentsPart("d", "]"), argumentsPart("c", "}"),
			rawCall("i", "c", "f", "{}"), rawCall("j", "d", "g", "[1]")},
			"", []string{`f {}`, `g [1]`}},
		"AC14 verbatim": {[]string{rawCall("i", "c", "f", `{"a": 1,  "a":2}`+"\u2028")},
			"", []string{`f {"a": 1,  "a":2}` + "\u2028"}},
		"AC15 the order of their items": {[]string{callBegun("c", "f"), callBegun("d", "g"), rawCall("j", "d", "g", "[]"), rawCall("i", "c", "f", "{}")},
			"", []string{`g []`, `f {}`}},
		"AC16 begun behind its item": {[]string{rawCall("i", "c", "f", "{}"), callBegun("c", "f"), argumentsPart("c", "{}")},
			"", []string{`f {}`}},
		"AC17 equal fragments": {[]string{callBegun("c", "f"), argumentsPart("c", "a"), argumentsPart("c", "a"), argumentsPart("c", "aa"), rawCall("i", "c", "f", "aaaa")},
			"", []string{`f aaaa`}},
		"AC18 the item has the rest": {[]string{argumentsPart("c", "{"), callBegun("c", "f"), rawCall("i", "c", "f", "{}")},
			"", []string{`f {}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var chunks, names, parts, whole []string
			if c.text != "" {
				chunks = []string{strconv.Quote(c.text)}
			}
			for i, call := range c.calls {
				name, arguments, _ := strings.Cut(call, " ")
				names, chunks = append(names, name), append(chunks, fmt.Sprintf("%d:tool_0_%d:%s", i, i, name))
				if arguments != "" {
					parts, chunks = append(parts, arguments), append(chunks, fmt.Sprintf("%d+%s", i, arguments))
				}
			}
			u, options := calling(t, c.lines...), turn.ToolOptions{TextualTools: turn.TextualOn, OutputMode: turn.ModeJSON}
			got := deltas(t, askCalls(t, u, options, chatPath, fmt.Sprintf(chatCalls, true)).Body.String())
			if want := strings.Join(chunks, " "); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			body := askCalls(t, u, options, chatPath, fmt.Sprintf(chatCalls, false)).Body.String()
			for _, call := range gjson.Get(body, "choices.0.message.tool_calls.#.function").Array() {
				whole = append(whole, call.Get("name").String()+" "+call.Get("arguments").String())
			}
			if !slices.Equal(whole, c.calls) {
				t.Errorf("the body has %q, want %q", whole, c.calls)
			}
			stream := askCalls(t, u, options, responsesPath, fmt.Sprintf(responsesCalls, true)).Body.String()
			if gotNames, gotParts := callEvents(t, stream); !slices.Equal(gotNames, names) || !slices.Equal(gotParts, parts) {
				t.Errorf("the events have %q %q, want %q %q", gotNames, gotParts, names, parts)
			}
		})
	}
}

// callEvents returns the names of the calls in a Responses stream, and the arguments of each event.
func callEvents(t *testing.T, stream string) (names, parts []string) {
	t.Helper()
	for e, err := range sse.Read(strings.NewReader(stream)) {
		must.OK(t, err)
		event := gjson.Parse(e.Data)
		switch kind := event.Get("type").String(); {
		case kind == "response.output_item.added" && event.Get("item.type").String() == "function_call":
			names = append(names, event.Get("item.name").String())
		case kind == "response.function_call_arguments.delta":
			parts = append(parts, event.Get("delta").String())
		}
	}
	return names, parts
}

// TestAfterCalls: what becomes of text and blocks behind a call, and whether there was too much,
// in both forms of the answer.
func TestAfterCalls(t *testing.T) {
	const (
		block  = "<use_tool><name>f</name></use_tool>"
		faulty = "<use_tool><name>g</name><args>{</use_tool>"
	)
	for name, c := range map[string]struct {
		text      string
		max       int
		json, xml string
		truncated string
	}{
		"a tail":                      {block + " so", 0, "", block, "false"},
		"prose about the tag":         {block + " The <use_tool> tag, and so on", 0, "", block, "false"},
		"a block that is no call":     {block + "<use_tool></use_tool> so", 0, "<use_tool></use_tool>", block + "<use_tool></use_tool>", "false"},
		"a nested block":              {block + "<use_tool><name>g</name> " + block + " so", 0, "<use_tool><name>g</name> ", block + "<use_tool><name>g</name> " + block, "false"},
		"one too many":                {block + block, 1, "", block, "true"},
		"one too many that is none":   {block + faulty, 1, faulty, block, "true"},
		"a faulty block before":       {faulty + " so " + block, 1, faulty + " so ", faulty + " so ", "true"},
		"one too many without a name": {block + "<use_tool></use_tool> so", 1, "<use_tool></use_tool>", block + "<use_tool></use_tool>", "false"},
		"open at the end":             {block + "<use_tool><name>g</name>", 1, "<use_tool><name>g</name>", block, "true"},
	} {
		for mode, want := range map[turn.Mode]string{turn.ModeJSON: c.json, turn.ModeXML: c.xml} {
			u := calling(t, textPart(c.text))
			w := askCalls(t, u, turn.ToolOptions{TextualTools: turn.TextualOn, OutputMode: mode, ToolBlockMax: c.max}, chatPath, fmt.Sprintf(chatCalls, false))
			if got, truncated := content(w.Body.String()), w.Header().Get(truncatedHeader); got != want || truncated != c.truncated {
				t.Errorf("%s, %s: %q, truncated %s; want %q, %s", name, mode, got, truncated, want, c.truncated)
			}
		}
	}
}

// TestMessagesAfterCalls: blocks that are no calls, each in a message of its own after a call, are
// messages of their own for a client of responses.
func TestMessagesAfterCalls(t *testing.T) {
	const first, second = "<use_tool><name>h</name></use_tool>", "<use_tool><name>i</name></use_tool>"
	u := calling(t, rawCall("i", "c", "f", `{"q":1}`), textPart(first), strings.Replace(textPart(second+" so"), `"m"`, `"n"`, 1))
	w := askCalls(t, u, turn.ToolOptions{TextualTools: turn.TextualAuto}, responsesPath, fmt.Sprintf(responsesCalls, false))
	output := gjson.GetBytes(w.Body.Bytes(), "output")
	var texts []string
	for _, text := range output.Get("#.content|@flatten|#.text").Array() {
		texts = append(texts, text.String())
	}
	if want := []string{first, second}; len(output.Array()) != 3 || !slices.Equal(texts, want) {
		t.Errorf("%s; want a call and %q", output, want)
	}
}

// TestCallForms: the same call for clients of tools and for those of functions (AC 3 of story 2.8).
func TestCallForms(t *testing.T) {
	const functions = `{"model":"m","stream":%t,"messages":[{"role":"user","content":"x"}],"functions":[{"name":"f"}]}`
	u := calling(t, rawCall("i", "c", "f", `{"q":1}`))
	for form, want := range map[string][2]string{
		chatCalls: {`"tool_calls":[{"id":"tool_0_0","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}]`,
			`"tool_calls":[{"index":0,"id":"tool_0_0","type":"function","function":{"name":"f","arguments":`},
		functions: {`"function_call":{"name":"f","arguments":"{\"q\":1}"}`, `"function_call":{"name":"f","arguments":`},
	} {
		for i, stream := range []bool{false, true} {
			body := askCalls(t, u, turn.ToolOptions{OutputMode: turn.ModeJSON}, chatPath, fmt.Sprintf(form, stream)).Body.String()
			if body = suffix.ReplaceAllString(body, "$1"); !strings.Contains(body, want[i]) {
				t.Errorf("stream %t: no %s in %s", stream, want[i], body)
			}
		}
	}
}

// TestCallsOfChoices: each choice has its own calls, and each request begins anew (AC 5 and 20 of
// story 2.8).
func TestCallsOfChoices(t *testing.T) {
	u := calling(t, callBegun("c", "f"), argumentsPart("c", "{"), argumentsPart("c", "}"), rawCall("i", "c", "f", "{}"))
	body := strings.Replace(fmt.Sprintf(chatCalls, true), `{`, `{"n":2,`, 1)
	for range 2 {
		got := deltas(t, askCalls(t, u, turn.ToolOptions{OutputMode: turn.ModeJSON}, chatPath, body).Body.String())
		for choice := range 2 {
			if want := fmt.Sprintf("0:tool_%d_0:f", choice); strings.Count(got, want) != 1 {
				t.Errorf("%s is there %d times in %s", want, strings.Count(got, want), got)
			}
		}
		if strings.Count(got, "0+{}") != 2 || strings.Contains(got, "1:") {
			t.Errorf("the arguments are %s", got)
		}
	}
}

// TestCallsInText: structured calls as blocks, for Obsidian Copilot (AC 21 to 24 of story 2.8).
func TestCallsInText(t *testing.T) {
	for name, c := range map[string]struct {
		tool, arguments string
		escape          usetool.Escaping
		want            string
	}{
		"AC21 a block": {"localSearch", `{"salientTerms":["planning"],"query":"planning"}`, "",
			"<query>planning</query>\n<salientTerms>[\"planning\"]</salientTerms>"},
		"AC22 the order and the parameters of the client": {"readNote", `{"chunkIndex":0,"k":8,"path":"a.md"}`, "",
			"<notePath>a.md</notePath>\n<chunkIndex>0</chunkIndex>"},
		"AC23 what is missing stays out": {"writeToFile", `{"confirmation":false,"path":"","content":null}`, "",
			"<path></path>\n<confirmation>false</confirmation>"},
		"AC24 as the client reads it": {"webSearch", `{"query":"R&D <b>","chatHistory":[]}`, "",
			"<query>R&D <b></query>\n<chatHistory>[]</chatHistory>"},
		"AC24 to the letter": {"webSearch", `{"query":"R&D <b>","chatHistory":[]}`, usetool.EscapeEntities,
			"<query>R&amp;D &lt;b&gt;</query>\n<chatHistory>[]</chatHistory>"},
	} {
		u := calling(t, rawCall("i", "c", c.tool, c.arguments))
		options := turn.ToolOptions{OutputMode: turn.ModeXML, XMLEscape: c.escape}
		for _, stream := range []bool{false, true} {
			body := strings.ReplaceAll(fmt.Sprintf(chatCalls, stream), `"name":"f"`, `"name":"`+c.tool+`"`)
			answer := askCalls(t, u, options, chatPath, body).Body.String()
			if want := "<use_tool>\n<name>" + c.tool + "</name>\n" + c.want + "\n</use_tool>"; strings.Count(content(answer), want) != 1 {
				t.Errorf("%s, stream %t: got %q, want %q", name, stream, content(answer), want)
			}
		}
	}
}

// content returns the text of an answer to a chat completion, whole or streamed.
func content(answer string) (text string) {
	for _, line := range strings.Split(answer, "\n") {
		for _, choice := range gjson.Get(strings.TrimPrefix(line, "data: "), "choices").Array() {
			text += choice.Get("message.content").String() + choice.Get("delta.content").String()
		}
	}
	return text
}

package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		if e.Data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string
					ToolCalls []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
			}
		}
		must.OK(t, json.Unmarshal([]byte(e.Data), &chunk))
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != "" {
				all = append(all, fmt.Sprintf("%q", choice.Delta.Content))
			}
			for _, call := range choice.Delta.ToolCalls {
				if call.ID != "" {
					all = append(all, fmt.Sprintf("%d:%s:%s", call.Index, suffix.ReplaceAllString(call.ID, "$1"), call.Function.Name))
				}
				if call.Function.Arguments != "" {
					all = append(all, fmt.Sprintf("%d+%s", call.Index, call.Function.Arguments))
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
		want  string
	}{
		"AC01 partials": {[]string{callBegun("c", "f"), argumentsPart("c", `{"q":`), argumentsPart("c", `1}`), rawCall("i", "c", "f", `{"q":1}`)},
			`0:tool_0_0:f 0+{"q":1}`},
		"AC04 order": {[]string{rawCall("i", "c", "g", "{}"), rawCall("j", "d", "f", "[]")},
			`0:tool_0_0:g 0+{} 1:tool_0_1:f 1+[]`},
		"AC04 an item of its own": {[]string{rawCall("i", "c", "f", "{}"), rawCall("j", "c", "f", "{}")},
			`0:tool_0_0:f 0+{} 1:tool_0_1:f 1+{}`},
		"AC04 arguments of its own": {[]string{rawCall("", "c", "f", `{"q":0}`), rawCall("", "c", "f", `{"q":1}`)},
			`0:tool_0_0:f 0+{"q":0} 1:tool_0_1:f 1+{"q":1}`},
		"AC06 a block": {[]string{textPart("Hm <use_tool><name>f</name>"), textPart("<q>1</q></use_tool> so")},
			`"Hm " 0:tool_0_0:f 0+{"q":"1"}`},
		"AC06 its twin": {[]string{textPart("<use_tool><name>f</name><q>1</q></use_tool>"), rawCall("i", "c", "f", `{"q": 1}`)},
			`0:tool_0_0:f 0+{"q":"1"}`},
		"AC06 mixed content": {[]string{textPart("<use_tool><name>f</name><content>Use <b>bold</b> text</content></use_tool>")},
			`0:tool_0_0:f 0+{"content":"Use <b>bold</b> text"}`},
		"AC07 noise": {[]string{`item/unheardOf {"x":1}`, argumentsPart("nobody", "x"), rawCall("i", "c", "f", `{"never": closed`)},
			`0:tool_0_0:f 0+{"never": closed`},
		"AC09 an id like ours": {[]string{rawCall("i", "c", "f", "{}"), rawCall("j", "tool_0_0", "f", "{}")},
			`0:tool_0_0:f 0+{} 1:tool_0_1:f 1+{}`},
		"AC11 repeated": {[]string{rawCall("i", "c", "f", "{}"), rawCall("i", "c", "f", "{}"), rawCall("", "d", "f", ""), rawCall("", "d", "f", "")},
			`0:tool_0_0:f 0+{} 1:tool_0_1:f`},
		"AC12 name first": {[]string{callBegun("c", "f"), rawCall("i", "c", "f", "{}")},
			`0:tool_0_0:f 0+{}`},
		"AC13 interleaved": {[]string{callBegun("c", "f"), callBegun("d", "g"), argumentsPart("d", "[1"), argumentsPart("c", "{"), argumentsPart("d", "]"), argumentsPart("c", "}"),
			rawCall("i", "c", "f", "{}"), rawCall("j", "d", "g", "[1]")},
			`0:tool_0_0:f 0+{} 1:tool_0_1:g 1+[1]`},
		"AC14 verbatim": {[]string{rawCall("i", "c", "f", `{"a": 1,  "a":2}`+"\u2028")},
			`0:tool_0_0:f 0+{"a": 1,  "a":2}` + "\u2028"},
		"AC15 the order of their items": {[]string{callBegun("c", "f"), callBegun("d", "g"), rawCall("j", "d", "g", "[]"), rawCall("i", "c", "f", "{}")},
			`0:tool_0_0:g 0+[] 1:tool_0_1:f 1+{}`},
		"AC16 begun behind its item": {[]string{rawCall("i", "c", "f", "{}"), callBegun("c", "f"), argumentsPart("c", "{}")},
			`0:tool_0_0:f 0+{}`},
		"AC17 equal fragments": {[]string{callBegun("c", "f"), argumentsPart("c", "a"), argumentsPart("c", "a"), argumentsPart("c", "aa"), rawCall("i", "c", "f", "aaaa")},
			`0:tool_0_0:f 0+aaaa`},
		"AC18 the item has the rest": {[]string{argumentsPart("c", "{"), callBegun("c", "f"), rawCall("i", "c", "f", "{}")},
			`0:tool_0_0:f 0+{}`},
	} {
		t.Run(name, func(t *testing.T) {
			u, options := calling(t, c.lines...), turn.ToolOptions{TextualTools: turn.TextualOn, OutputMode: turn.ModeJSON}
			got := deltas(t, askCalls(t, u, options, chatPath, fmt.Sprintf(chatCalls, true)).Body.String())
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			body := askCalls(t, u, options, chatPath, fmt.Sprintf(chatCalls, false)).Body.String()
			checkSameCalls(t, body, c.want)
			stream := askCalls(t, u, options, responsesPath, fmt.Sprintf(responsesCalls, true)).Body.String()
			checkEvents(t, stream, c.want)
		})
	}
}

// checkSameCalls wants the names of the calls in a body that is not streamed.
func checkSameCalls(t *testing.T, body, line string) {
	t.Helper()
	var read struct {
		Choices []struct {
			Message struct {
				ToolCalls []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	must.OK(t, json.Unmarshal([]byte(body), &read))
	var all []string
	for i, call := range read.Choices[0].Message.ToolCalls {
		all = append(all, fmt.Sprintf("%d:tool_0_%d:%s", i, i, call.Function.Name))
		if call.Function.Arguments != "" {
			all = append(all, fmt.Sprintf("%d+%s", i, call.Function.Arguments))
		}
	}
	if got := strings.Join(all, " "); got != wholeCalls(line) {
		t.Errorf("the body has %s, want %s", got, wholeCalls(line))
	}
}

// wholeCalls joins the fragments in a line of deltas, and leaves the content out.
func wholeCalls(line string) string {
	line = regexp.MustCompile(`"[^"]*" (\d+:tool)`).ReplaceAllString(line, "$1")
	for i := range 2 {
		first := fmt.Sprintf("%d+", i)
		head, rest, _ := strings.Cut(line, first)
		line = head + first + strings.ReplaceAll(rest, " "+first, "")
	}
	return strings.TrimSuffix(strings.TrimSuffix(line, "1+"), " 0+")
}

// checkEvents wants an event of a Responses stream for each fragment.
func checkEvents(t *testing.T, stream, line string) {
	t.Helper()
	var names, parts []string
	for _, data := range regexp.MustCompile(`(?m)^data: (.*)$`).FindAllStringSubmatch(stream, -1) {
		var event struct {
			Type  string
			Delta string
			Item  struct{ Type, Name string }
		}
		must.OK(t, json.Unmarshal([]byte(data[1]), &event))
		switch {
		case event.Type == "response.output_item.added" && event.Item.Type == "function_call":
			names = append(names, event.Item.Name)
		case event.Type == "response.function_call_arguments.delta":
			parts = append(parts, event.Delta)
		}
	}
	var wantNames, wantParts []string
	for _, word := range regexp.MustCompile(`(?:^| )(\d+(?::tool_0_\d+:|\+))`).FindAllStringSubmatchIndex(line, -1) {
		end := len(line)
		if next := regexp.MustCompile(` \d+(:tool_0_\d+:|\+)`).FindStringIndex(line[word[3]:]); next != nil {
			end = word[3] + next[0]
		}
		if text := line[word[3]:end]; strings.HasSuffix(line[word[2]:word[3]], "+") {
			wantParts = append(wantParts, text)
		} else {
			wantNames = append(wantNames, text)
		}
	}
	if fmt.Sprint(names, parts) != fmt.Sprint(wantNames, wantParts) {
		t.Errorf("the events have %q %q, want %q %q", names, parts, wantNames, wantParts)
	}
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
			var body struct {
				Choices []struct{ Message struct{ Content string } }
			}
			must.OK(t, json.Unmarshal(w.Body.Bytes(), &body))
			if got, truncated := body.Choices[0].Message.Content, w.Header().Get(truncatedHeader); got != want || truncated != c.truncated {
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
	var body struct {
		Output []struct {
			Type    string
			Content []struct{ Text string }
		}
	}
	w := askCalls(t, u, turn.ToolOptions{TextualTools: turn.TextualAuto}, responsesPath, fmt.Sprintf(responsesCalls, false))
	must.OK(t, json.Unmarshal(w.Body.Bytes(), &body))
	var texts []string
	for _, item := range body.Output {
		for _, part := range item.Content {
			texts = append(texts, part.Text)
		}
	}
	if want := []string{first, second}; len(body.Output) != 3 || !slices.Equal(texts, want) {
		t.Errorf("%d items, %q; want a call and %q", len(body.Output), texts, want)
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
			if want := "<use_tool>\n<name>" + c.tool + "</name>\n" + c.want + "\n</use_tool>"; strings.Count(content(t, answer), want) != 1 {
				t.Errorf("%s, stream %t: got %q, want %q", name, stream, content(t, answer), want)
			}
		}
	}
}

// content returns the text of an answer to a chat completion, whole or streamed.
func content(t *testing.T, answer string) (text string) {
	t.Helper()
	for _, line := range strings.Split(answer, "\n") {
		data := strings.TrimPrefix(line, "data: ")
		if !strings.HasPrefix(data, "{") {
			continue
		}
		var read struct {
			Choices []struct{ Message, Delta struct{ Content string } }
		}
		must.OK(t, json.Unmarshal([]byte(data), &read))
		for _, choice := range read.Choices {
			text += choice.Message.Content + choice.Delta.Content
		}
	}
	return text
}

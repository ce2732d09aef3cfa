package demomodel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

var demo = Model{SignIn: func() string { return "Enter the code `AB12-CD34E`." }}

func message(role, text string) scriptedmodel.Item {
	return scriptedmodel.Item{Type: "message", Role: role, Content: scriptedmodel.Content{{Type: "input_text", Text: text}}}
}

// conversation returns a request with these texts, of the user and the model in turn.
func conversation(texts ...string) scriptedmodel.Request {
	req := scriptedmodel.Request{Number: 1}
	for i, text := range texts {
		req.Input = append(req.Input, message([]string{"user", "assistant"}[i%2], text))
	}
	return req
}

// answered returns the text and the calls of the answer to a request.
func answered(req scriptedmodel.Request) (text string, calls []scriptedmodel.Call) {
	for _, out := range demo.Answer(req, req.UserText()).Output {
		switch out := out.(type) {
		case scriptedmodel.Say:
			text += string(out)
		case scriptedmodel.Call:
			calls = append(calls, out)
		}
	}
	return text, calls
}

// TestAnswers: each kind of question gets an answer of that kind, which is honest.
func TestAnswers(t *testing.T) {
	for question, want := range map[string][]string{
		"Hello!":                              {"demo model"},
		"Bonjour":                             {"demo model"},
		"你好":                                  {"demo model"},
		"Hello! What can you do?":             {"table", "demo model"},
		"Name a good book, in one line.":      {"*", "demo model"},
		"Show me a table of planets":          {"| Saturn |", "demo model"},
		"Write some Go code":                  {"```go\n", "demo model"},
		"a python script please":              {"```python\n"},
		"JS snippet":                          {"```js\n"},
		"write a shell script":                {"```sh\n"},
		"Make a list of ideas":                {"1. "},
		"Tell me a joke":                      {"demo model"},
		"a haiku please":                      {"> "},
		"Tell me a story":                     {"### "},
		"Explain streaming":                   {"text/event-stream"},
		"Why is the sky blue?":                {"short waves"},
		"the formula of a triangle":           {"$$a^2 + b^2 = c^2$$"},
		"Write a long essay":                  {"## The quiet middle"},
		"draw a picture":                      {"```"},
		"What is (12 + 30) * 2?":              {"**84**"},
		"how much is 17% of 250":              {"**42.5**"},
		"2^10":                                {"**1024**"},
		"6 times 7":                           {"**42**"},
		"2^10 - -24 / 5":                      {"**1028.8**"},
		"10 / 4 - 1":                          {"**1.5**"},
		"what is 1/0 ?":                       {"no result"},
		"What time is it?":                    {"20"},
		"My name is Ada.":                     {"**Ada**"},
		"What is my name?":                    {"not told me your name"},
		"Is Mars a good holiday destination?": {"Mars", "*log in*", "demo"},
		"help":                                {"`say:TEXT`"},
		"Log in":                              {"`AB12-CD34E`"},
		"/login":                              {"`AB12-CD34E`"},
		"Sign in, please":                     {"`AB12-CD34E`"},
		"please sign in.":                     {"`AB12-CD34E`"},
		"how do I log in?":                    {"`AB12-CD34E`"},
		"Can you log me in":                   {"`AB12-CD34E`"},
		"sign-in with my ChatGPT plan":        {"`AB12-CD34E`"},
		"login form in HTML":                  {"```html\n"},
		"Why can I not log in to my bank?":    {"*log in*"},
		"":                                    {"no text"},
		"😀🎉":                                  {"😀🎉", "demo model"},
		"???":                                 {"demo model"},
		"<script>alert(1)</script>":           {"script alert", "demo"},
		"Thanks!":                             {""},
		"<system-reminder>\nRules speak of a table.\n</system-reminder>\n\nTell me a joke": {"demo model"},
	} {
		text, calls := answered(conversation(question))
		if len(calls) > 0 || text == "" {
			t.Errorf("%q: %q, %v", question, text, calls)
		}
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%q: there is no %q in %q", question, part, text)
			}
		}
		if strings.Contains(text, "{") && strings.Contains(text, "topic}") || strings.Contains(text, "keys:") || strings.Contains(text, "<script>") {
			t.Errorf("%q: %q", question, text)
		}
		if n := strings.Count(text, "demo model"); n > 1 && question != "help" {
			t.Errorf("%q says %d times what it is: %q", question, n, text)
		}
	}
}

// TestVaried: a conversation has each answer once as long as there are others, and other questions,
// or another request, get others.
func TestVaried(t *testing.T) {
	for question, n := range map[string]int{"Tell me a joke": 6, "Name a book": 5, "Some Go code": 2, "Hm, Mars?": 3, "Hello": 3} {
		var texts []string
		seen := make(map[string]bool)
		for range n {
			texts = append(texts, question)
			text, _ := answered(conversation(texts...))
			texts = append(texts, text)
			seen[text] = true
		}
		if len(seen) != n {
			t.Errorf("%s: there are %d answers of %d", question, len(seen), n)
		}
	}
	text, _ := answered(conversation("Tell me a joke", "Ha.", "another one, please", "Ha.", "one more"))
	if !strings.HasSuffix(text, footnote) {
		t.Error(text)
	}
	first, second := conversation("Name a good book, in one line."), conversation("Name a good book, in one line.")
	second.Number++
	one, _ := answered(first)
	two, _ := answered(second)
	if one == two || strings.Contains(one+two, "\n") {
		t.Errorf("%q, %q", one, two)
	}
}

// TestRemembers: the model refers to what was said before.
func TestRemembers(t *testing.T) {
	for question, want := range map[string]string{
		"What is my name?":                    "**Ada**",
		"who am I":                            "**Ada**",
		"Do you remember my favourite color?": "**green**",
		"What did I say first?":               "> My name is Ada and",
	} {
		text, _ := answered(conversation("My name is Ada and I like \\*stars\\*", "Nice.", "my favourite color is green", "It is.", question))
		if !strings.Contains(text, want) {
			t.Errorf("%s: %s", question, text)
		}
	}
	if text, _ := answered(conversation("I'm tired of tables", "Oh.", "What is my name?")); !strings.Contains(text, "not told me") {
		t.Error(text)
	}
}

// TestHousekeeping: clients get short titles and the like, in their form.
func TestHousekeeping(t *testing.T) {
	const chat = "<chat_history>\nUSER: How do I bake bread at home?\nASSISTANT: With flour.\n</chat_history>"
	openWebUI := func(task, form string) string {
		return "### Task:\n" + task + "\n### Guidelines:\n- Write in the chat's primary language\n### Output:\nJSON format: " + form + "\n### Chat History:\n" + chat
	}
	for name, c := range map[string]struct {
		instructions, question, want string
	}{
		"Open WebUI's title": {"", openWebUI("Generate a concise, 3-5 word title with an emoji summarizing the chat history.", `{ "title": "your concise title here" }`), "Bake bread at home"},
		"opencode":           {"You are a title generator. You output ONLY a thread title. Nothing else.", "Generate a title for this conversation:\nHow do I bake bread at home?", "Bake bread at home"},
		"Claude Code":        {"Generate a concise, sentence-case title (3-7 words) that captures the main topic of this coding session. Return JSON with a single \"title\" field.", "fix the login button on mobile", "Fix the login button on mobile"},
		"Zed":                {"", "Generate a concise 3-7 word title for this conversation, omitting punctuation. Go straight to the title.", "A Conversation"},
	} {
		req := conversation(c.question)
		if name == "Zed" {
			req = conversation("How do I bake bread at home?", "With flour.", c.question)
			c.want = "Bake bread at home"
		}
		req.Input = append([]scriptedmodel.Item{message("developer", c.instructions)}, req.Input...)
		if text, _ := answered(req); text != c.want {
			t.Errorf("%s: %s", name, text)
		}
	}
}

var (
	weather = scriptedmodel.Tool{Type: "function", Name: "get_weather", Parameters: json.RawMessage(
		`{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["C","F"]}}}`)}
	search = scriptedmodel.Tool{Type: "function", Name: "webSearch", Parameters: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string"}}}`)}
	write  = scriptedmodel.Tool{Type: "function", Name: "Write", Parameters: json.RawMessage(`{"type":"object","required":["path","content"],"properties":{"path":{"type":"string"},"content":{"type":"string"}}}`)}
)

// TestCalls: the model calls the tools that are forced, or asked for, and no others.
func TestCalls(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		question  string
		developer string
		choice    string
		parallel  *bool
		want      string
	}{
		"asked":              {question: "What is the weather in Oslo? Use the tool.", want: `get_weather{"city":"Oslo"}`},
		"a part of the name": {question: "Weather in Oslo?", want: `get_weather{"city":"Oslo"}`},
		"two places":         {question: "What is the weather in Oslo and in Paris?", want: `get_weather{"city":"Oslo"} get_weather{"city":"Paris"}`},
		"one at a time":      {question: "What is the weather in Oslo and in Paris?", parallel: &no, want: `get_weather{"city":"Oslo"}`},
		"two tools":          {question: "call get_weather and use webSearch for Oslo", want: `get_weather{"city":"Oslo"} webSearch{"query":"Oslo"}`},
		"forced":             {question: "Hello", developer: "In this reply you must call the tool webSearch. Do not answer with text instead.", want: `webSearch{"query":"Hello"}`},
		"any":                {question: "Hello", developer: "In this reply you must call at least one of your tools. Do not answer with text instead.", want: `get_weather{"city":"Oslo"}`},
		"any, several named": {question: "the weather in Rome, and a webSearch", developer: "In this reply you must call at least one of your tools.", want: `get_weather{"city":"Rome"} webSearch{"query":"Rome"}`},
		"by the field":       {question: "Hello", choice: `{"type":"function","name":"get_weather"}`, want: `get_weather{"city":"Oslo"}`},
		"required":           {question: "Hello", choice: `"required"`, want: `get_weather{"city":"Oslo"}`},
		"an agent's tool":    {question: "Use Write, please", want: `Write{"content":"Use Write, please","path":"demo-note.md"}`},
		"none":               {question: "Write a poem about tools"},
		"an agent's rules":   {question: "Use the tool. " + strings.Repeat("Rules, get_weather. ", 100)},
	} {
		req := conversation(c.question)
		req.Tools = []scriptedmodel.Tool{weather, search, write}
		req.ParallelToolCalls, req.ToolChoice = c.parallel, json.RawMessage(c.choice)
		req.Input = append([]scriptedmodel.Item{message("developer", c.developer)}, req.Input...)
		text, calls := answered(req)
		var got []string
		for _, call := range calls {
			got = append(got, call.Name+call.Arguments)
		}
		if strings.Join(got, " ") != c.want || (text == "") == (c.want == "") {
			t.Errorf("%s: it calls %s, and says %q", name, got, text)
		}
	}
}

// TestResults: the model says something about the results of tools.
func TestResults(t *testing.T) {
	for result, want := range map[string]string{
		"rain":                       "`get_weather` for **Oslo** says: rain",
		"":                           "had nothing to say",
		`{"temp":7,"sky":"a|b"}`:     "| **sky** | a\\|b |\n| **temp** | 7 |",
		"a\nb\nc":                    "3 lines:\n\n```text\na\nb\nc\n```",
		"Error: no such city":        "has failed: Error: no such city",
		"<b>bold</b>":                "\\<b\\>bold",
		strings.Repeat("long ", 1e5): "long…",
	} {
		req := conversation("What is the weather in Oslo?")
		req.Tools = []scriptedmodel.Tool{weather}
		req.Input = append(req.Input, scriptedmodel.Item{Type: "function_call", CallID: "1", Name: "get_weather", Arguments: `{"city":"Oslo"}`},
			scriptedmodel.Item{Type: "function_call_output", CallID: "1", Output: scriptedmodel.Content{{Text: result}}})
		if text, calls := answered(req); !strings.Contains(text, want) || len(text) > 2000 || len(calls) > 0 {
			t.Errorf("%.40q: %s", result, text)
		}
	}
}

// TestSchemas: an answer fits its schema.
func TestSchemas(t *testing.T) {
	for _, text := range []string{
		`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"const":3},"c":{"type":["string","null"]},"d":{"type":"null"}},"required":["a","b","c","d"]}`,
		`{"type":"object","properties":{"list":{"type":"array","minItems":3,"maxItems":3,"uniqueItems":true,"items":{"type":"string"}}},"required":["list"]}`,
		`{"type":"object","properties":{"ids":{"type":"array","minItems":3,"items":{"type":"integer","minimum":5,"maximum":9}},"one":{"type":"array","maxItems":1,"items":{"type":"boolean"}}},"required":["ids","one"]}`,
		`{"type":"object","properties":{"on":{"type":"string","format":"date"},"at":{"type":"string","format":"date-time"},"mail":{"type":"string","format":"email"},"id":{"type":"string","format":"uuid"},"at2":{"type":"string","format":"time"},"url":{"type":"string","format":"uri"},"ip":{"type":"string","format":"ipv4"},"ip6":{"type":"string","format":"ipv6"},"h":{"type":"string","format":"hostname"},"for":{"type":"string","format":"duration"}},"required":["on","at","mail","id","at2","url"]}`,
		`{"type":"object","properties":{"n":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},"m":{"type":"integer","multipleOf":7,"minimum":10},"k":{"type":"integer","maximum":-5},"p":{"type":"number","minimum":0.25,"maximum":0.3}},"required":["n","m","k","p"]}`,
		`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"required":["tree"],"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name","children"]}}}`,
		`{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]}`,
		`{"type":"object","properties":{"v":{"anyOf":[{"type":"null"},{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]}]}},"required":["v"]}`,
		`{"type":"object","properties":{"code":{"type":"string","pattern":"^[A-Z]{3}$"},"version":{"type":"string","pattern":"^\\d+\\.\\d+\\.\\d+$"}},"required":["code","version"]}`,
		`{"type":"object","required":["answer"]}`,
		`{"type":"array","items":{"type":"string"}}`,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		must.OK(t, err)
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		must.OK(t, compiler.AddResource("schema.json", document))
		compiled, err := compiler.Compile("schema.json")
		must.OK(t, err)
		for _, question := range []string{"", "Extract: Grace Hopper was 85, and had 3 ships, not 0.5.", strings.Repeat("x <b> ", 1e4)} {
			req := conversation(question)
			req.Text.Format = scriptedmodel.Format{Type: "json_schema", Schema: json.RawMessage(text)}
			got, _ := answered(req)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
			if err == nil {
				err = compiled.Validate(value)
			}
			if err != nil {
				t.Errorf("%s\n%.300s: %v", text, got, err)
			}
		}
	}
	req := conversation("Extract the person: Grace Hopper was 85 years old.")
	req.Text.Format = scriptedmodel.Format{Type: "json_schema", Schema: json.RawMessage(`{"properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}`)}
	if got, _ := answered(req); got != `{"age":85,"name":"Grace Hopper"}` {
		t.Error(got)
	}
	req.Text.Format = scriptedmodel.Format{Type: "json_object"}
	if got, _ := answered(req); !json.Valid([]byte(got)) || got[0] != '{' {
		t.Error(got)
	}
	for told, want := range map[string]string{
		toldObject + ": no other text, no code fence.": `{"answer":"The demo model's answer about fine.","model":"demo"}`,
		"Be brief.\n\n" + toldSchema + ", and nothing else.\n\nIt is short.\n\n" + `{"type":"object","properties":{"ok":{"type":"boolean"}}}` + "\n\nMore.": `{"ok":true}`,
	} {
		req := conversation("fine?")
		req.Input = append(req.Input, message("developer", told))
		if got, _ := answered(req); got != want {
			t.Errorf("%s: %s", told, got)
		}
	}
}

// TestOdd: no question takes long, or breaks the model.
func TestOdd(t *testing.T) {
	for _, question := range []string{
		strings.Repeat("a", 100_000), strings.Repeat("🎉", 30_000), strings.Repeat("1+", 50_000), strings.Repeat("(", 400) + "1+1", strings.Repeat("-", 400) + "1*1",
		strings.Repeat("summarize this. ", 7000), strings.Repeat("1/", 200), "\x00\x01", "my is", "translate to french", "what is my", "use the tool", "table", "if", "{topic}", "$1 ${2} %s %d",
		strings.Repeat("Ü", 500), "Was ist die Hauptstadt von Frankreich?", "日本の首都はどこですか", strings.Repeat(" ", 1e5), "|a|b|", "i'm ß", "call me ", "1,5 * 2", "1..2+3",
	} {
		for _, format := range []string{"", "json_object", "json_schema"} {
			req := conversation("Hi", "Hello", question)
			req.Tools = []scriptedmodel.Tool{{Type: "function", Name: "", Parameters: json.RawMessage(`[]`)}, {Type: "function", Name: "a.b*", Parameters: nil}}
			req.Text.Format = scriptedmodel.Format{Type: format, Schema: json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"}}}`)}
			began := time.Now()
			text, calls := answered(req)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("%.20q takes %v", question, took)
			}
			if text == "" && len(calls) == 0 || len(text) > 8000 {
				t.Errorf("%.20q: %d bytes", question, len(text))
			}
		}
	}
}

// TestThoughts: some answers begin with a reasoning, if the request asks for its summary.
func TestThoughts(t *testing.T) {
	req := conversation("Explain recursion")
	if out := demo.Answer(req, req.UserText()).Output; len(out) != 1 {
		t.Errorf("%v", out)
	}
	req.Reasoning.Summary = "auto"
	if out := demo.Answer(req, req.UserText()).Output; len(out) != 2 || !strings.Contains(fmt.Sprint(out[0]), "about recursion") {
		t.Errorf("%v", out)
	}
}

// TestTopics: each text is an answer that some question gets.
func TestTopics(t *testing.T) {
	for _, topic := range append(topics, thanks, unknown) {
		for _, v := range topic.variants {
			if len(v.text) < 15 || strings.HasPrefix(v.text, "keys") || strings.Contains(v.text, "===") || strings.Count(v.text, "```")%2 != 0 {
				t.Errorf("%s: %q", topic.name, v.text)
			}
		}
	}
}

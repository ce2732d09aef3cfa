package scriptedmodel

import (
	"encoding/json"
	"strings"
	"testing"
)

func function(name, parameters string) object {
	return object{"type": "function", "name": name, "parameters": json.RawMessage(parameters)}
}

var demoTools = []any{
	function("request_user_input", `{"required":["questions"]}`),
	function("get_weather", `{"type":"object","required":["location","unit"],"properties":{
		"location":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]}}}`),
	function("webSearch", `{"type":"object","properties":{"query":{"type":"string"}}}`),
	function("getCurrentTime", `{"type":"object"}`),
	function("write_file", `{"required":["path","content"],"properties":{"path":{"type":"string"},"content":{"type":"string"}}}`),
}

// TestDemoCalls: a question that fits a tool calls it, after a word of reasoning.
func TestDemoCalls(t *testing.T) {
	cases := []struct {
		question string
		want     Call
	}{
		{"What is the weather in Paris?", Call{Name: "get_weather", Arguments: `{"location":"Paris","unit":"celsius"}`}},
		{"What is the temperature in Fahrenheit in New York?", Call{Name: "get_weather", Arguments: `{"location":"New York","unit":"fahrenheit"}`}},
		{"Search the web for cats!", Call{Name: "webSearch", Arguments: `{"query":"cats"}`}},
		{"Please search for cats for me.", Call{Name: "webSearch", Arguments: `{"query":"cats"}`}},
		{`Please look up "Caddy modules" for me`, Call{Name: "webSearch", Arguments: `{"query":"Caddy modules"}`}},
		{"hello, use webSearch", Call{Name: "webSearch", Arguments: `{"query":"hello, use webSearch"}`}},
		{"what time is it", Call{Name: "getCurrentTime", Arguments: `{}`}},
		{"save to notes/a.md: some text", Call{Name: "write_file", Arguments: `{"content":"some text","path":"notes/a.md"}`}},
	}
	s := start(t, Options{})
	for _, c := range cases {
		a := s.prompt(c.question, object{"tools": demoTools})
		calls := a.calls()
		if len(calls) != 1 || calls[0] != c.want {
			t.Errorf("%q: calls %v, want %v", c.question, calls, c.want)
		}
		if len(a.deltas("response.reasoning_summary_text.delta")) == 0 {
			t.Errorf("%q: no reasoning", c.question)
		}
	}
}

// TestDemoTexts: what fits no tool is answered with text.
func TestDemoTexts(t *testing.T) {
	cases := []struct {
		question string
		tools    []any
		want     []string
	}{
		{"Hello!", demoTools, []string{"Hello!", "not a real one", "codex login", "help"}},
		{"good morning", nil, []string{"Hello!"}},
		{"Hi, please explain to me why the sky is blue", nil, []string{"You said: “Hi, please explain"}},
		{"Why is the sky blue?", nil, []string{"You said: “Why is the sky blue?”", "codex login"}},
		{"Why is the sky blue?", demoTools, []string{"(4): get_weather, webSearch, getCurrentTime, write_file."}},
		{"What is the weather in Paris?", nil, []string{"You said"}},
		{"Help!", demoTools, directiveWords()},
		{" ", nil, []string{"no text"}},
		{"delay=1ns; Hello", nil, []string{"Hello!"}},
		{"Tool 'localSearch' result: {}", nil, []string{"The tool said: Tool 'localSearch' result: {}"}},
	}
	s := start(t, Options{})
	for _, c := range cases {
		a := s.prompt(c.question, object{"tools": c.tools})
		for _, want := range c.want {
			if !strings.Contains(a.text(), want) || len(a.calls()) != 0 {
				t.Errorf("%q: answered %q and %v, want %q", c.question, a.text(), a.calls(), want)
			}
		}
	}
}

// directiveWords are the names of all directives: the help explains each.
func directiveWords() (words []string) {
	for _, name := range directiveNames {
		words = append(words, "`"+name)
	}
	return words
}

func TestDemoResults(t *testing.T) {
	s := start(t, Options{})
	a := s.prompt("", object{"tools": demoTools, "input": []any{
		object{"role": "user", "content": "What is the weather in Paris?"},
		object{"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"},
		object{"type": "function_call_output", "call_id": "c", "output": "sunny"},
	}})
	if !strings.HasPrefix(a.text(), "The tool said: sunny") || len(a.calls()) != 0 {
		t.Errorf("answered %q and %v", a.text(), a.calls())
	}
}

func TestDemoImages(t *testing.T) {
	s := start(t, Options{})
	image := object{"type": "input_image", "image_url": "data:image/png;base64,AA=="}
	a := s.prompt("", object{"input": []any{object{"role": "user", "content": []any{object{"type": "input_text", "text": "And this?"}, image, image}}}})
	if !strings.Contains(a.text(), "attached images (2)") {
		t.Errorf("answered %q", a.text())
	}
}

// TestDemoFormats: an answer that has to be JSON is.
func TestDemoFormats(t *testing.T) {
	s := start(t, Options{})
	schema := object{"type": "json_schema", "name": "n", "schema": json.RawMessage(`{"type":"object","required":["city","n"],
		"properties":{"city":{"type":"string"},"n":{"type":"integer"}}}`)}
	cases := []struct {
		format object
		want   string
	}{
		{schema, `{"city":"Rome","n":3}`},
		{object{"type": "json_object"}, `{"answer":"You said: Plan 3 days in Rome"}`},
	}
	for _, c := range cases {
		if got := s.prompt("Plan 3 days in Rome", object{"text": object{"format": c.format}}).text(); got != c.want {
			t.Errorf("%v: answered %s, want %s", c.format["type"], got, c.want)
		}
	}
}

// TestDemoBlocks: instructions that teach <use_tool> get blocks, for the tools
// they name.
func TestDemoBlocks(t *testing.T) {
	const instructions = "Call tools with <use_tool><name>localSearch</name>…</use_tool>. There are writeToFile and readNote, and:\n" +
		"<use_tool>\n<name>rollDice</name>\n<query>6</query>\n</use_tool>"
	cases := []struct{ question, want string }{
		{"Search my notes for gardening tips", "<name>localSearch</name>\n<query>gardening tips</query>\n<salientTerms>[\"gardening\",\"tips\"]</salientTerms>\n"},
		{"read notes/Plan.md", "<name>readNote</name>\n<notePath>notes/Plan.md</notePath>\n"},
		{"Write to a.md: hello & <b>", "<name>writeToFile</name>\n<content>hello & <b></content>\n<path>a.md</path>\n"},
		{"roll the dice", "<name>rollDice</name>\n<query>roll the dice</query>\n"},
	}
	s := start(t, Options{})
	for _, c := range cases {
		got := s.prompt(c.question, object{"instructions": instructions, "tools": demoTools[:1]}).text()
		if want := "<use_tool>\n" + c.want + "</use_tool>"; !strings.HasSuffix(got, want) {
			t.Errorf("%q: answered %q, want %q", c.question, got, want)
		}
	}
	for question, instructions := range map[string]string{
		"what time is it": instructions,
		"search for cats": "There is localSearch.",
	} {
		if got := s.prompt(question, object{"instructions": instructions}).text(); strings.Contains(got, "<use_tool>") {
			t.Errorf("%q: answered %q", question, got)
		}
	}
}

func TestFill(t *testing.T) {
	cases := []struct{ name, schema, want string }{
		{"nothing", ``, `{}`},
		{"not a schema", `7`, `{}`},
		{"no required members", `{"properties":{"b":{"type":"string"},"a":{"type":"boolean"}}}`, `{"a":true}`},
		{"types", `{"required":["s","i","n","b","z","l","o","x"],"properties":{"s":{"type":["null","string"]},"i":{"type":"integer"},
			"n":{"type":"number","minimum":20},"b":{"type":"boolean"},"z":{"type":"null"},"l":{"type":"array","items":{"type":"integer"}},
			"o":{"type":"object","required":["p"],"properties":{"p":{"type":"array","items":{"type":"string"}}}}}}`,
			`{"b":true,"i":12,"l":[12],"n":20,"o":{"p":["cats","and","dogs"]},"s":"cats and dogs","x":null,"z":null}`},
		{"choices", `{"required":["a","b","c","d"],"properties":{"a":{"enum":["birds","dogs"]},"b":{"const":7},
			"c":{"anyOf":[{"type":"null"},{"type":"boolean"}]},"d":{"type":"array","items":{"type":"string","enum":["x"]}}}}`,
			`{"a":"dogs","b":7,"c":true,"d":["x"]}`},
		{"names", `{"required":["url","email","date","timezone","notePath","content"],"properties":{"url":{"type":"string"},"email":{"type":"string"},
			"date":{"type":"string"},"timezone":{"type":"string"},"notePath":{"type":"string"},"content":{"type":"string"}}}`,
			`{"content":"Written by the demo model.","date":"2030-01-01","email":"demo@example.com","notePath":"notes/demo.md","timezone":"UTC","url":"https://example.com/"}`},
		{"references", `{"required":["a"],"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"integer"}}}`, `{"a":12}`},
		{"a reference to nothing", `{"required":["a"],"properties":{"a":{"$ref":"#/$defs/B"}}}`, `{"a":null}`},
		{"arrays of anything", `{"required":["a"],"properties":{"a":{"type":"array"}}}`, `{"a":["cats and dogs"]}`},
	}
	for _, c := range cases {
		if got := string(fill(json.RawMessage(c.schema), "Tell 12 people about cats and dogs.")); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestFillEnds: a schema that refers to itself is filled to a bounded depth.
func TestFillEnds(t *testing.T) {
	got := fill(json.RawMessage(`{"$ref":"#/$defs/N","$defs":{"N":{"type":"object","required":["n"],"properties":{"n":{"$ref":"#/$defs/N"}}}}}`), "x")
	if !json.Valid(got) || strings.Count(string(got), `"n"`) < 2 || len(got) > 200 {
		t.Errorf("filled with %s", got)
	}
}

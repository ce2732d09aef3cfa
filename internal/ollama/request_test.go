package ollama

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/docfields"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
)

const png = "iVBORw0KGgo="

func ask(messages, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"m","messages":[` + messages + `]` + more + `}`
}

const question = `{"role":"user","content":"q"}`

func planOf(t testing.TB, body string) *prompt.Plan {
	t.Helper()
	r, apiErr := DecodeChat([]byte(body))
	if apiErr != nil {
		t.Fatalf("%s: %v", body, apiErr)
	}
	p, apiErr := r.Plan(prompt.Options{Efforts: func(string) (string, string) { return "minimal", "xhigh" }})
	if apiErr != nil {
		t.Fatalf("%s: %v", body, apiErr)
	}
	plancheck.Check(t, p)
	return p
}

// given returns what the model is given of a plan: the history and the input.
func given(p *prompt.Plan) string {
	var lines []string
	for _, item := range p.History {
		lines = append(lines, string(item))
	}
	for _, in := range p.Turn.Input {
		lines = append(lines, "> "+in.Type+" "+in.Text+in.URL)
	}
	return strings.Join(lines, "\n")
}

func userItem(text string) string {
	return `{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text + `"}]}` + "\n"
}

func callItem(id, name, arguments string) string {
	quoted, _ := json.Marshal(arguments)
	return `{"type":"function_call","call_id":"` + id + `","name":"` + name + `","arguments":` + string(quoted) + "}\n"
}

func resultItem(id, text string) string {
	return `{"type":"function_call_output","call_id":"` + id + `","output":"` + text + "\"}\n"
}

// TestHistory: what the model is given of a conversation.
func TestHistory(t *testing.T) {
	const calls = `{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2.50}}},{"function":{"name":"g","arguments":{}}},{"function":{"name":"f","arguments":null}}]}`
	const ids = `{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"index":0,"name":"f","arguments":{}}},{"id":"y","function":{"name":"g","arguments":"{\"a\":1}"}},{"id":"x","function":{"name":"f"}}]}`
	called := userItem("q") + callItem("call_1_0", "f", `{"b":1,"a":2.50}`) + callItem("call_1_1", "g", "{}") + callItem("call_1_2", "f", "{}")
	known := userItem("q") + callItem("x", "f", "{}") + callItem("y", "g", `{"a":1}`) + callItem("call_1_2", "f", "{}")
	for name, c := range map[string]struct{ messages, want string }{
		"a text":                   {question, "> text q"},
		"a role in capitals":       {`{"role":"User","content":"q"}`, "> text q"},
		"an image":                 {`{"role":"user","content":"q","images":["` + png + `"]}`, "> text q\n> image data:image/png;base64," + png},
		"nothing":                  {`{"role":"system"},{"role":"user"}`, "> text "},
		"a question after nothing": {`{"role":"user","content":null},` + question + `,{"role":"user"}`, "> text q"},
		"a data URL":               {`{"role":"user","content":[],"images":["data:image\/png;base64,` + png + `"]}`, "> image data:image/png;base64," + png},
		"an image on its own":      {question + `,{"role":"user","content":"","images":["` + png + `"]}`, "> text q\n> image data:image/png;base64," + png},
		"two questions":            {question + `,{"role":"user","content":"r"}`, "> text q\n> text r"},
		"an answer": {question + `,{"role":"assistant","content":"a","thinking":"t"},{"role":"user","content":"r"}`,
			userItem("q") + `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}` + "\n> text r"},
		"an answer that broke off": {question + `,{"role":"assistant","content":""},{"role":"user","content":"r"}`, "> text q\n> text r"},
		"results by order": {question + "," + calls + `,{"role":"tool","content":"1"},{"role":"tool","content":"2"},{"role":"tool"}`,
			called + resultItem("call_1_0", "1") + resultItem("call_1_1", "2") + resultItem("call_1_2", "")},
		"results by name": {question + "," + calls + `,{"role":"tool","tool_name":"g","content":"2"},{"role":"tool","tool_name":"f","content":"1"},{"role":"tool","tool_name":"f","content":"3"}`,
			called + resultItem("call_1_1", "2") + resultItem("call_1_0", "1") + resultItem("call_1_2", "3")},
		"a result of no such name": {question + "," + calls + `,{"role":"tool","tool_name":"g","content":"2"},{"role":"tool","tool_name":"g","content":"1"},{"role":"tool","tool_name":"h","content":"3"}`,
			called + resultItem("call_1_1", "2") + resultItem("call_1_0", "1") + resultItem("call_1_2", "3")},
		"results by id": {question + "," + ids + `,{"role":"tool","tool_call_id":"y","content":"2"},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"tool","tool_call_id":"x","content":"3"}`,
			known + resultItem("y", "2") + resultItem("x", "1") + resultItem("call_1_2", "3")},
		"a history that was cut": {`{"role":"system","content":"s"},{"role":"tool","content":"1"},{"role":"tool","content":"2"},` + question, "> text q"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := given(planOf(t, ask(c.messages, ""))); got != strings.TrimSuffix(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestGenerate: a prompt is a conversation.
func TestGenerate(t *testing.T) {
	r, apiErr := DecodeGenerate([]byte(`{"model":"m","prompt":"p","system":"s","images":["` + png + `"],"raw":true,"template":"t","context":[1],"stream":false}`))
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	p, _ := r.Plan(prompt.Options{})
	if got := given(p); got != "> text p\n> image data:image/png;base64,"+png || *p.Thread.BaseInstructions != "s" || p.Stream {
		t.Errorf("%s, %s", got, *p.Thread.BaseInstructions)
	}
}

// TestLoads: what is no question is none for the model.
func TestLoads(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m"}`: "load",
		`{"model":"m","messages":[],"keep_alive":"5m"}`:   "load",
		`{"model":"m","messages":null,"keep_alive":0}`:    "unload",
		`{"model":"m","messages":[],"keep_alive":"0s"}`:   "unload",
		`{"model":"m","prompt":"","keep_alive":-1}`:       "load",
		`{"model":"m","prompt":"p","messages":[{}]}`:      "generate",
		`{"model":"m","messages":[` + question + `]}`:     "chat",
		`{"model":"m","system":"s","keep_alive":"never"}`: "load",
	} {
		got := ""
		if r, apiErr := DecodeChat([]byte(body)); apiErr == nil && want != "generate" {
			got = r.Meta(time.Time{}).loadReason
		}
		if r, apiErr := DecodeGenerate([]byte(body)); apiErr == nil && !strings.Contains(body, `"messages"`) {
			if also := r.Meta(time.Time{}).loadReason; also != got {
				t.Errorf("%s: %s and %s", body, got, also)
			}
		}
		if want == "chat" || want == "generate" {
			want = ""
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// TestSettings: what Codex is asked for.
func TestSettings(t *testing.T) {
	const strict = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	const loose = `{"type":"object","properties":{"a":{"type":"string"}}}`
	show := func(p *prompt.Plan) string {
		return fmt.Sprintf("stream %t, effort %s, summary %v, schema %s, %q, stops %q, tokens %d, ignored %q", p.Stream, p.Thread.Config.Effort(),
			p.Thread.Config.Own["model_reasoning_summary"], p.Turn.OutputSchema, strings.SplitN(p.Thread.DeveloperInstructions, " ", 3)[0], p.StopSequences, p.MaxTokens, p.Ignored)
	}
	plain := show(planOf(t, ask(question, "")))
	if want := `stream true, effort , summary auto, schema , "", stops [], tokens 0, ignored []`; plain != want {
		t.Errorf("got  %s\nwant %s", plain, want)
	}
	for more, change := range map[string][2]string{
		`"stream":false`:     {"stream true", "stream false"},
		`"stream":null`:      {},
		`"think":true`:       {},
		`"think":null`:       {},
		`"think":false`:      {"effort , summary auto", "effort minimal, summary none"},
		`"think":"low"`:      {"effort ,", "effort low,"},
		`"think":"max"`:      {"effort ,", "effort xhigh,"},
		`"format":""`:        {},
		`"format":"json"`:    {`""`, `"Answer"`},
		`"format":` + strict: {"schema ,", "schema " + strict + ","},
		`"format":` + loose:  {`""`, `"Answer"`},
		`"options":null`:     {},
		`"options":{"num_predict":7,"num_ctx":1,"x":2}`: {"tokens 0", "tokens 7"},
		`"options":{"num_predict":-1}`:                  {},
		`"options":{"stop":"a"}`:                        {"stops []", `stops ["a"]`},
		`"options":{"stop":["a","","b","c","d","e"]}`:   {`stops [], tokens 0, ignored []`, `stops ["a" "b" "c" "d"], tokens 0, ignored ["options.stop"]`},
		`"options":{"temperature":0.1,"seed":"odd"}`:    {"ignored []", `ignored ["options.temperature" "options.seed"]`},
		`"num_predict":8`:                               {"tokens 0", "tokens 8"},
		`"max_output_tokens":9.0`:                       {"tokens 0", "tokens 9"},
		`"keep_alive":5,"truncate":true,"shift":false,"logprobs":false,"top_logprobs":0,"tools":null`: {},
	} {
		want := plain
		if change[0] != "" {
			want = strings.Replace(plain, change[0], change[1], 1)
		}
		if got := show(planOf(t, ask(question, more))); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", more, got, want)
		}
	}
}

// TestEffortOfAlias: without thinking, the effort that the operator has given to a name stays.
func TestEffortOfAlias(t *testing.T) {
	for alias, want := range map[string]string{"high": "high", "": "minimal"} {
		r, _ := DecodeChat([]byte(ask(question, `"think":false`)))
		p, _ := r.Plan(prompt.Options{Resolve: func(string) (string, string, bool) { return "c", alias, false }, Efforts: func(string) (string, string) { return "minimal", "" }})
		if got := p.Thread.Config.Effort(); got != want || p.Thread.Model != "c" {
			t.Errorf("%q becomes %q", alias, got)
		}
	}
}

// TestTools: a tool is what it is in chat completions.
func TestTools(t *testing.T) {
	p := planOf(t, ask(question, `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"$schema":"s","type":"object","properties":{}}}},{"function":{"name":"g"}}]`))
	if got := p.Thread.DynamicTools; len(got) != 2 || got[0].Name != "f" || !strings.HasPrefix(got[0].Description, "d") || got[1].Name != "g" {
		t.Errorf("%+v", got)
	}
}

// TestRefusals: what is refused, and where.
func TestRefusals(t *testing.T) {
	const called = question + `,{"role":"assistant","tool_calls":[{"function":{"name":"f"}},{"function":{"name":"f"}}]}`
	for body, want := range map[string]string{
		`{`:                        "could not be read as a JSON object",
		`{"messages":[]}`:          "model: is required",
		ask(`7`, ""):               "messages[0]: must be an object, not a number",
		ask(`{"content":"q"}`, ""): "messages[0].role: is required",
		ask(`{"role":"x"}`, ""):    "messages[0].role: must be one of system, developer, user, assistant, tool",
		ask(`{"role":"user","content":[{"type":"text"}]}`, ""):          "messages[0].content: must be a string, not an array",
		ask(`{"role":"user","images":[{"0":137}]}`, ""):                 "messages[0].images[0]: must be a string, not an object",
		ask(`{"role":"user","images":["AAAA"]}`, ""):                    "messages[0].images[0]: does not hold a png, jpeg, gif or webp image",
		ask(`{"role":"user","images":["https://a.example/x.png"]}`, ""): "messages[0].images[0]: does not hold valid base64",
		ask(`{"role":"assistant","content":""}`, ""):                    "messages: must hold at least one message with a content",
		ask(called, ""): "messages[1].tool_calls[0]: must be followed by a message of the role tool for each call",
		ask(called+`,{"role":"tool","content":"1"},`+question, ""):                                         "messages[1].tool_calls[1]: must be followed",
		ask(question+`,{"role":"tool","content":"1"}`, ""):                                                 "messages[1]: there is no call",
		ask(question+`,{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":[1]}}]}`, ""): "messages[1].tool_calls[0].function.arguments: must be an object, not an array",
		ask(question, `"think":"on"`):                                                                      "think: must be true, false, low, medium, high or max",
		ask(question, `"format":"xml"`):                                                                    `format: must be "json" or a JSON Schema`,
		ask(question, `"options":[]`):                                                                      "options: must be an object, not an array",
		ask(question, `"options":{"num_predict":"many"}`):                                                  "options.num_predict: must be a number, not a string",
		ask(question, `"logprobs":true`):                                                                   "logprobs: is not supported",
		ask(question, `"stream":"yes"`):                                                                    "stream: must be a boolean, not a string",
		ask(question, `"tools":[{"type":"web_search"}]`):                                                   "tools[0].type: must be 'function'",
		ask(question, `"tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}]`):                     `tools[1].function.name: the name "f" is used twice`,
	} {
		_, apiErr := DecodeChat([]byte(body))
		if apiErr == nil || apiErr.Status != 400 || !strings.Contains(apiErr.Message, want) {
			t.Errorf("%s: %v, want %s", body, apiErr, want)
		}
	}
	if _, apiErr := DecodeGenerate([]byte(`{"model":"m","prompt":"p","suffix":"s"}`)); apiErr == nil || !strings.Contains(apiErr.Message, "does not support insert") {
		t.Error(apiErr)
	}
}

// TestReadersAreDocumented looks for each field that is read in the tables of fields.
func TestReadersAreDocumented(t *testing.T) {
	docfields.Read(t, "../../docs/ollama.md", "## POST /api/chat", chatReaders)
	docfields.Read(t, "../../docs/ollama.md", "## POST /api/generate", generateReaders)
}

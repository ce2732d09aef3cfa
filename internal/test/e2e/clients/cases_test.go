package clients

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// clientCase is a request and the answer every client must get. JSON fields are for the client.
type clientCase struct {
	Name    string `json:"name"`
	Prompt  string `json:"prompt"`
	Tools   bool   `json:"tools"`   // declares localSearch
	Choose  bool   `json:"choose"`  // requires it with tool_choice
	Results bool   `json:"results"` // sends results of the calls
	Form    bool   `json:"form"`    // requires a JSON schema
	JSON    bool   `json:"json"`    // requires JSON

	content   string // content of the last round
	reasoning string // reasoning for clients that read it
	calls     []seenCall
	finish    string
	object    any
	status    int    // status of the expected error
	code      string // code of the error
	retry     bool   // the error has a Retry-After
	cut       bool   // the error comes within a stream
}

// multibyte has characters of every length and combined characters.
const multibyte = "Grüße aus dem Vault — 你好 👋🏽, e\u0301 \u2028 ﷽"

var clientCases = []clientCase{
	{
		Name:    "text",
		Prompt:  "chunk=3; verbatim:" + multibyte,
		content: multibyte, finish: "stop",
	},
	{
		Name:      "reasoning",
		Prompt:    "reason:Let me think.; say:Thought.",
		reasoning: "Let me think.", content: "Thought.", finish: "stop",
	},
	{
		Name:    "cut short",
		Prompt:  "say:It is; incomplete:max_output_tokens",
		content: "It is", finish: "length",
	},
	{
		Name:   "chosen call",
		Prompt: `chunk=2; tool:localSearch {"query":"<ünï> \"a\\b\" 你好"}`, Tools: true, Choose: true,
		calls: []seenCall{searchFor(`<ünï> "a\b" 你好`)}, finish: "tool_calls",
	},
	{
		Name:   "text and calls",
		Prompt: `say:Let me look.; tool:3 localSearch {"query":"note %d"}`, Tools: true,
		content: "Let me look.", calls: threeSearches, finish: "tool_calls",
	},
	{
		// The model quotes results if the script has no answer to them.
		Name:   "results",
		Prompt: `tool:3 localSearch {"query":"note %d"}`, Tools: true, Results: true,
		content: "The tools said:\n- found: note 1\n- found: note 2\n- found: note 3",
		calls:   threeSearches, finish: "stop",
	},
	{
		Name:   "results after reasoning",
		Prompt: `reason:Let me see.; say:I look.; tool:2 localSearch {"query":"%d"}; then; say:Found.`, Tools: true, Results: true,
		content: "Found.", calls: []seenCall{searchFor("1"), searchFor("2")}, finish: "stop",
	},
	{
		// The blank line between the text and the block remains.
		Name:   "text and blocks",
		Prompt: `chunk=5; say:Let me look.; usetool:2 localSearch {"query":"%d"}`, Tools: true,
		content: "Let me look.\n\n", calls: []seenCall{searchFor("1"), searchFor("2")}, finish: "tool_calls",
	},
	{
		Name:   "results of blocks",
		Prompt: `usetool:2 localSearch {"query":"%d"}`, Tools: true, Results: true,
		content: "The tools said:\n- found: 1\n- found: 2",
		calls:   []seenCall{searchFor("1"), searchFor("2")}, finish: "stop",
	},
	{
		Name:   "schema",
		Prompt: formPrompt, Form: true,
		content: formText, object: formObject, finish: "stop",
	},
	{
		Name:   "json",
		Prompt: "chunk=4; verbatim:" + formText, JSON: true,
		content: formText, object: formObject, finish: "stop",
	},
	{Name: "429", Prompt: "http:429", status: 429, code: "rate_limit_exceeded", retry: true},
	{Name: "400", Prompt: "http:400", status: 400, code: "invalid_request"},
	{Name: "503", Prompt: "http:503", status: 503, code: "server_overloaded", retry: true},
	{Name: "cut off", Prompt: "chunk=3; say:Half of it; cutoff", status: 502, code: "upstream_disconnected", cut: true},
}

var threeSearches = []seenCall{searchFor("note 1"), searchFor("note 2"), searchFor("note 3")}

func searchFor(query string) seenCall {
	return seenCall{"localSearch", map[string]any{"query": query}}
}

// The structured answer.
const (
	formPrompt = "Fill in the form."
	formText   = `{"title":"Grüße","count":3}`
)

var formObject any = map[string]any{"title": "Grüße", "count": 3.0}

// fillForm answers formPrompt with the form if the request has its schema: in the format,
// or, as Genkit sends it, in a message behind the prompt.
func fillForm(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
	text := r.UserText()
	inWords := isForm(json.RawMessage(braced(text)))
	if text != formPrompt && !inWords {
		return scriptedmodel.Script{}, false
	}
	answer := scriptedmodel.Say("Which form?")
	format := r.Text.Format
	if format.Type == "json_schema" && isForm(format.Schema) || inWords {
		answer = formText
	}
	return scriptedmodel.Script{Output: []scriptedmodel.Output{answer}, Chunk: 4}, true
}

func braced(text string) string {
	begin, end := strings.Index(text, "{"), strings.LastIndex(text, "}")
	if begin < 0 || end < begin {
		return ""
	}
	return text[begin : end+1]
}

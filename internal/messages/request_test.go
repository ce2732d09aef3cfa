package messages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
)

const png = "iVBORw0KGgo="

func ask(messages, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"claude-x","max_tokens":100,"messages":[` + messages + `]` + more + `}`
}

func planOf(t testing.TB, body string) *prompt.Plan {
	t.Helper()
	r, apiErr := Decode([]byte(body))
	if apiErr != nil {
		t.Fatalf("%s: %v", body, apiErr)
	}
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatalf("%s: %v", body, apiErr)
	}
	plancheck.Check(t, p)
	return p
}

// given returns what the model is given of a body: the history and the input.
func given(t testing.TB, body string) string {
	t.Helper()
	p := planOf(t, body)
	var lines []string
	for _, item := range p.History {
		lines = append(lines, string(item))
	}
	for _, in := range p.Turn.Input {
		lines = append(lines, "> "+in.Type+" "+in.Text+in.URL)
	}
	return strings.Join(lines, "\n")
}

const (
	user      = `{"type":"message","role":"user","content":`
	assistant = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`
	developer = `{"type":"message","role":"developer","content":[{"type":"input_text","text":`
)

// TestHistory: what the model is given of a conversation.
func TestHistory(t *testing.T) {
	const call = `{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]}`
	const called = user + `[{"type":"input_text","text":"q"}]}` + "\n" + `{"type":"function_call","call_id":"t1","name":"f","arguments":"{\"a\":1}"}` + "\n"
	result := func(content string) string {
		return call + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",` + content + `}]}`
	}
	output := func(text string) string {
		return called + `{"type":"function_call_output","call_id":"t1","output":` + text + `}`
	}
	for name, c := range map[string]struct{ messages, want string }{
		"a text":         {`{"role":"user","content":"q"}`, "> text q"},
		"a block":        {`{"role":"user","content":[{"type":"text","text":"q","cache_control":{"type":"ephemeral"}}]}`, "> text q"},
		"an empty text":  {`{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"q"}]}`, "> text q"},
		"an image":       {`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}]}`, "> image data:image/png;base64," + png},
		"an answer":      {`{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}`, user + `[{"type":"input_text","text":"q"}]}` + "\n" + assistant + `"a"}]}` + "\n> text r"},
		"blank answers":  {`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":" \n"}]},{"role":"user","content":"r"}`, user + `[{"type":"input_text","text":"q"}]}` + "\n> text r"},
		"a system":       {`{"role":"user","content":"q"},{"role":"system","content":"s"}`, user + `[{"type":"input_text","text":"q"}]}` + "\n" + developer + `"s"}]}`},
		"a silent one":   {`{"role":"user","content":"q"},{"role":"system","content":[],"output_config":{"effort":"low"}}`, "> text q"},
		"no content":     {`{"role":"user","content":"q"},{"role":"system","output_config":{"effort":"low"}}`, "> text q"},
		"a result":       {result(`"content":"r"`), output(`"r"`)},
		"a result block": {result(`"content":[{"type":"text","text":"r"}],"is_error":true`), output(`"r"`)},
		"no result":      {result(`"is_error":false`), output(`""`)},
		"a result with an image": {result(`"content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}]`),
			output(`[{"type":"input_text","text":"r"},{"type":"input_image","image_url":"data:image/png;base64,` + png + `","detail":"high"}]`)},
		"a PDF": {result(`"content":[{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"}}]`),
			output(`"Document \"a.pdf\":\n\n[The document is a PDF, which cannot be read here. Extract its text with a tool, such as pdftotext, and read that.]"`)},
		"a reference to no tool": {result(`"content":[{"type":"tool_reference","tool_name":"X"}]`), output(`"The tool X can be called now."`)},
		"text behind a result":   {call + `,{"role":"user","content":[{"type":"text","text":"n"},{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`, output(`"r"`) + "\n> text n"},
		"a note behind a result": {result(`"content":"r"`) + `,{"role":"system","content":"note"}`, output(`"r"`) + "\n" + developer + `"note"}]}`},
		"a document":             {`{"role":"user","content":[{"type":"document","title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"d"}}]}`, "> text Document \"T\" (C):\n> text d"},
		"a document of blocks":   {`{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"d"}]}}]}`, "> text Document:\n> text d"},
		"a file":                 {`{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}`, "> text [An image is missing here: it was uploaded to Anthropic, where this server cannot read it.]"},
		"a search result":        {`{"role":"user","content":[{"type":"search_result","title":"T","source":"https://a.example","content":[{"type":"text","text":"r"}]}]}`, "> text Search result \"T\" (https://a.example):\n> text r"},
		"our reasoning": {`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"codex-1.rs_1.enc.more"},{"type":"text","text":"a"}]}`,
			user + `[{"type":"input_text","text":"q"}]}` + "\n" + `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"enc.more"}` + "\n" + assistant + `"a"}]}`},
		"others' reasoning": {`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"EqoB"},{"type":"thinking","thinking":"hm","signature":""},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"a"}]}`,
			user + `[{"type":"input_text","text":"q"}]}` + "\n" + assistant + `"a"}]}`},
		"blocks of a search": {`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"a"}]}`,
			user + `[{"type":"input_text","text":"q"}]}` + "\n" + assistant + `"a"}]}`},
		"input that was no JSON": {`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"__unparsedToolInput":{"raw":"{\"a\":","len":5}}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}`,
			user + `[{"type":"input_text","text":"q"}]}` + "\n" + `{"type":"function_call","call_id":"t1","name":"f","arguments":"{\"a\":"}` + "\n" + `{"type":"function_call_output","call_id":"t1","output":""}`},
		"joined answers": {call + `,{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2"},{"type":"tool_result","tool_use_id":"t1"}]}`,
			called + `{"type":"function_call","call_id":"t2","name":"f","arguments":"{}"}` + "\n" + `{"type":"function_call_output","call_id":"t2","output":""}` + "\n" + `{"type":"function_call_output","call_id":"t1","output":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := given(t, ask(c.messages, "")); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestInstructions: the system prompt, without what Claude Code sends for its bills.
func TestInstructions(t *testing.T) {
	for system, want := range map[string]string{
		`"Be brief."`: "Be brief.",
		`[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.330.abc; cc_entrypoint=cli;"},{"type":"text","text":"A","cache_control":{"type":"ephemeral","ttl":"1h"}},{"type":"text","text":"B"}]`: "A\n\nB",
		`null`: "You are a helpful assistant.",
	} {
		p := planOf(t, ask(`{"role":"user","content":"q"}`, `"system":`+system))
		if got := *p.Thread.BaseInstructions; got != want {
			t.Errorf("%s: %q", system, got)
		}
	}
}

// TestSettings: what the other fields become.
func TestSettings(t *testing.T) {
	const strict = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	for more, want := range map[string]string{
		``:                               `effort=<nil> summary=none`,
		`"thinking":{"type":"disabled"}`: `effort=low summary=none`,
		`"thinking":{"type":"adaptive"}`: `effort=<nil> summary=auto thinking=2`,
		`"thinking":{"type":"adaptive","display":"omitted"}`:                                     `effort=<nil> summary=none thinking=1`,
		`"thinking":{"type":"adaptive","display":"updates"},"output_config":{"effort":"xhigh"}`:  `effort=xhigh summary=auto thinking=2`,
		`"thinking":{"type":"enabled","budget_tokens":1024}`:                                     `effort=low summary=auto thinking=2`,
		`"thinking":{"type":"enabled","budget_tokens":8000}`:                                     `effort=medium summary=auto thinking=2`,
		`"thinking":{"type":"enabled","budget_tokens":32000}`:                                    `effort=high summary=auto thinking=2`,
		`"temperature":0.5,"top_p":1,"top_k":4`:                                                  `effort=<nil> summary=none ignored=temperature,top_k`,
		`"speed":"fast"`:                                                                         `effort=<nil> summary=none tier=priority`,
		`"speed":"standard","service_tier":"auto","metadata":{"user_id":"u"},"mcp_servers":[]`:   `effort=<nil> summary=none`,
		`"output_config":{"format":{"type":"json_schema","schema":` + strict + `}}`:              `effort=<nil> summary=none schema=` + strict,
		`"output_format":{"type":"json_schema","schema":` + strict + `}`:                         `effort=<nil> summary=none schema=` + strict,
		`"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`:           `effort=<nil> summary=none told={"type":"object"}`,
		`"stop_sequences":["a","b","a"]`:                                                         `effort=<nil> summary=none stops=a,b`,
		`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"none"}`:                 `effort=<nil> summary=none`,
		`"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{"type":"object"}}]`: `effort=<nil> summary=none tools=f,g`,
		`"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}],"tool_choice":{"type":"tool","name":"g","disable_parallel_tool_use":true}`: `effort=<nil> summary=none tools=g serial told=In this reply you must call the tool g. Do not answer with text instead.`,
		`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"}`:                                                                             `effort=<nil> summary=none tools=f told=In this reply you must call at least one of your tools. Do not answer with text instead.`,
		`"tool_choice":{"type":"auto"}`: `effort=<nil> summary=none`,
		`"tools":[{"type":"bash_20250124","name":"bash"},{"type":"text_editor_20250728","name":"str_replace_based_edit_tool"},{"type":"memory_20250818","name":"memory"}]`:       `effort=<nil> summary=none tools=bash,str_replace_based_edit_tool,memory`,
		`"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8,"allowed_domains":["a.example"],"user_location":{"type":"approximate","city":"Bonn"}}]`:         `effort=<nil> summary=none search=live {"tools":{"experimental_request_user_input":{"enabled":false},"web_search":{"allowed_domains":["a.example"],"location":{"city":"Bonn"}}}}`,
		`"tools":[{"type":"web_search_20250305","name":"web_search","blocked_domains":["a.example"]}],"tool_choice":{"type":"tool","name":"web_search"}`:                         `effort=<nil> summary=none ignored=tools.blocked_domains search=live told=In this reply you must search the web before you answer.`,
		`"tools":[{"name":"f","input_schema":{}},{"name":"X","input_schema":{},"defer_loading":true}],"tool_choice":{"type":"tool","name":"X","disable_parallel_tool_use":null}`: `effort=<nil> summary=none tools=call_tool told=In this reply you must call the tool call_tool. Do not answer with text instead.`,
		`"tools":[{"name":"call_tool","input_schema":{}},{"name":"X","input_schema":{},"defer_loading":true}]`:                                                                   `effort=<nil> summary=none tools=call_tool,call_tool_2`,
	} {
		r, apiErr := Decode([]byte(ask(`{"role":"user","content":"q"}`, more)))
		if apiErr != nil {
			t.Errorf("%s: %v", more, apiErr)
			continue
		}
		if got := settingsOf(t, r); !strings.HasPrefix(got, want) || len(got) != len(want) && !strings.Contains(want, "told=") && !strings.Contains(want, "search=") {
			t.Errorf("%s\ngot  %s\nwant %s", more, got, want)
		}
	}
}

func settingsOf(t *testing.T, r *Request) string {
	t.Helper()
	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	config, _ := json.Marshal(p.Thread.Config.Own)
	var own map[string]any
	if err := json.Unmarshal(config, &own); err != nil {
		t.Fatal(err)
	}
	effort, _ := own["model_reasoning_effort"].(string)
	if effort == "" {
		effort = "<nil>"
	}
	text := "effort=" + effort + " summary=" + own["model_reasoning_summary"].(string)
	add := func(given bool, name, value string) {
		if given {
			text += " " + name + value
		}
	}
	names := make([]string, 0, len(p.Thread.DynamicTools))
	for _, tool := range p.Thread.DynamicTools {
		names = append(names, tool.Name)
	}
	add(r.Thinking != ThinkingOff, "thinking=", string(rune('0'+r.Thinking)))
	add(len(p.Ignored) > 0, "ignored=", strings.Join(p.Ignored, ","))
	add(p.Thread.ServiceTier != "", "tier=", p.Thread.ServiceTier)
	add(p.Turn.OutputSchema != nil, "schema=", string(p.Turn.OutputSchema))
	add(len(p.StopSequences) > 0, "stops=", strings.Join(p.StopSequences, ","))
	add(len(names) > 0, "tools=", strings.Join(names, ","))
	add(p.SerialTools, "serial", "")
	search, _ := json.Marshal(map[string]any{"tools": own["tools"]})
	if p.WebSearch {
		add(true, "search=", own["web_search"].(string))
		add(strings.Contains(string(search), "web_search"), "", string(search))
	}
	told := p.Thread.DeveloperInstructions
	if at := strings.LastIndex(told, "\n\n"); at >= 0 {
		told = told[at+2:]
	}
	add(told != "", "told=", told)
	return text
}

// TestDeferred: the model is offered the same functions, whatever was found so far, and reads
// of a tool in the result that refers to it.
func TestDeferred(t *testing.T) {
	const search = `{"name":"ToolSearch","input_schema":{}}`
	const web = `{"name":"Web","description":"Reads a page.","input_schema":{"type":"object","properties":{"q":{}}},"defer_loading":true}`
	before := planOf(t, ask(`{"role":"user","content":"q"}`, `"tools":[`+search+`,{"name":"Placeholder","input_schema":{},"defer_loading":true}]`))
	const history = `{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ToolSearch","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference","tool_name":"Web"}]},{"type":"text","text":"Tool loaded."}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"Web","input":{"q":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"r"}]}`
	after := planOf(t, ask(history, `"tools":[`+search+`,`+web+`]`))
	a, _ := json.Marshal(before.Thread)
	b, _ := json.Marshal(after.Thread)
	if string(a) != string(b) || len(after.Thread.DynamicTools) != 2 {
		t.Errorf("the thread has changed:\n%s\n%s", a, b)
	}
	said := string(after.History[2])
	if !strings.Contains(said, `The tool Web can be called now, with call_tool.\n\nReads a page.`) || !strings.Contains(said, `\"q\"`) {
		t.Errorf("the model is told %s", said)
	}
	if got := string(after.History[4]); got != `{"type":"function_call","call_id":"b","name":"call_tool","arguments":"{\"name\":\"Web\",\"arguments\":{\"q\":\"x\"}}"}` {
		t.Errorf("the call is %s", got)
	}
}

// TestDeferredOnce: a long description is told once, however many results refer to it.
func TestDeferredOnce(t *testing.T) {
	references := strings.Repeat(`{"type":"tool_reference","tool_name":"Web"},`, 1000) + `{"type":"text","text":"."}`
	p := planOf(t, ask(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[`+references+`]}]}`,
		`"tools":[{"name":"Web","description":"`+strings.Repeat("long ", 10_000)+`","input_schema":{},"defer_loading":true}]`))
	if size := len(p.History[2]); size < 50_000 || size > 200_000 {
		t.Errorf("the result has %d bytes", size)
	}
}

// TestModels: Anthropic's models are Codex's own default, unless they are aliases.
func TestModels(t *testing.T) {
	resolve := func(model string) (string, string, bool) {
		switch model {
		case "claude-haiku-5":
			return "gpt-mini", "low", true
		case "default":
			return "", "", false
		}
		return model, "", false
	}
	for model, want := range map[string]string{"claude-opus-5-5": "", "claude-haiku-5": "gpt-mini", "gpt-x": "gpt-x", "default": ""} {
		r, apiErr := Decode([]byte(`{"model":"` + model + `","messages":[{"role":"user","content":"q"}]}`))
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		p, apiErr := r.Plan(prompt.Options{Resolve: resolve})
		if apiErr != nil || p.Thread.Model != want || p.Model != model {
			t.Errorf("%s: %q %q %v", model, p.Thread.Model, p.Model, apiErr)
		}
	}
}

// TestRefused: errors name the field.
func TestRefused(t *testing.T) {
	blocks := func(b string) string { return ask(`{"role":"user","content":[`+b+`]}`, "") }
	with := func(more string) string { return ask(`{"role":"user","content":"q"}`, more) }
	const tools = clearEdit
	const call = `{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	for body, want := range map[string]struct {
		param string
		code  apierror.Code
	}{
		`[]`:                                     {"", apierror.CodeInvalidJSON},
		`{"messages":[`:                          {"", apierror.CodeInvalidJSON},
		`{"model":"m"}`:                          {"messages", apierror.CodeMissingParameter},
		`{"messages":0}`:                         {"model", apierror.CodeMissingParameter},
		`{"model":"m","messages":[]}`:            {"messages", apierror.CodeInvalidValue},
		`{"model":"m","messages":{}}`:            {"messages", apierror.CodeInvalidType},
		ask(`7`, ""):                             {"messages[0]", apierror.CodeInvalidType},
		ask(`{"content":"q"}`, ""):               {"messages[0].role", apierror.CodeMissingParameter},
		ask(`{"role":"tool","content":"q"}`, ""): {"messages[0].role", apierror.CodeInvalidValue},
		ask(`{"role":"user"}`, ""):               {"messages[0].content", apierror.CodeMissingParameter},
		ask(`{"role":"user","content":7}`, ""):   {"messages[0].content", apierror.CodeInvalidType},
		ask(`{"role":"user","content":""}`, ""):  {"messages", apierror.CodeInvalidValue},
		ask(`{"role":"system","content":[{"type":"x"}]}`, ""):      {"messages[0].content[0].type", apierror.CodeInvalidValue},
		ask(`{"role":"system","content":[{"type":"text"}]}`, ""):   {"messages[0].content[0].text", apierror.CodeMissingParameter},
		ask(`{"role":"user","content":"q"},{"role":"system"}`, ""): {"messages[1].content", apierror.CodeMissingParameter},
		blocks(`7`):                                      {"messages[0].content[0]", apierror.CodeInvalidType},
		blocks(`{"text":"q"}`):                           {"messages[0].content[0].type", apierror.CodeMissingParameter},
		blocks(`{"type":"","text":"q"}`):                 {"messages[0].content[0].type", apierror.CodeInvalidValue},
		blocks(`{"type":"text","text":7}`):               {"messages[0].content[0].text", apierror.CodeInvalidType},
		blocks(`{"type":"tool_use"}`):                    {"messages[0].content[0].type", apierror.CodeInvalidValue},
		blocks(`{"type":"tool_reference"}`):              {"messages[0].content[0].type", apierror.CodeInvalidValue},
		blocks(`{"type":"image"}`):                       {"messages[0].content[0].source", apierror.CodeMissingParameter},
		blocks(`{"type":"image","source":{"type":"x"}}`): {"messages[0].content[0].source.type", apierror.CodeInvalidValue},
		blocks(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`):                  {"messages[0].content[0].source.data", apierror.CodeInvalidValue},
		blocks(`{"type":"image","source":{"type":"url","url":"http://a.example"}}`):                                   {"messages[0].content[0].source.url", apierror.CodeInvalidValue},
		blocks(`{"type":"document","source":{"type":"text"}}`):                                                        {"messages[0].content[0].source.data", apierror.CodeMissingParameter},
		blocks(`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"x"}]}}`): {"messages[0].content[0].source.content[1].type", apierror.CodeInvalidValue},
		blocks(`{"type":"search_result","title":"t","source":"s","content":[{"type":"image"}]}`):                      {"messages[0].content[0].content[0].type", apierror.CodeInvalidValue},
		blocks(`{"type":"tool_result","tool_use_id":"x"}`):                                                            {"messages[0].content[0].tool_use_id", apierror.CodeInvalidValue},
		ask(call, ""): {"messages[1].content[1].id", apierror.CodeInvalidValue},
		ask(call+`,{"role":"user","content":"no"}`, ""):                                                                                                                                 {"messages[1].content[1].id", apierror.CodeInvalidValue},
		ask(call+`,{"role":"user","content":"no"},{"role":"assistant","content":"a"}`, ""):                                                                                              {"messages[1].content[1].id", apierror.CodeInvalidValue},
		ask(call+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"tool_reference"}]}]}`, ""):                                                     {"messages[2].content[0].content[0].tool_name", apierror.CodeMissingParameter},
		ask(call+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}`, ""):                                                  {"messages[2].content[1].tool_use_id", apierror.CodeInvalidValue},
		ask(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"x"}]}`, ""):                                                   {"messages[1].content[0].input", apierror.CodeInvalidType},
		ask(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}]}`, ""): {"messages[1].content[1].id", apierror.CodeInvalidValue},
		with(`"max_tokens":0`):                                       {"max_tokens", apierror.CodeInvalidValue},
		with(`"system":[{"type":"image"}]`):                          {"system[0].type", apierror.CodeInvalidValue},
		with(`"thinking":{"type":"x"}`):                              {"thinking.type", apierror.CodeInvalidValue},
		with(`"thinking":{"type":"enabled"}`):                        {"thinking.budget_tokens", apierror.CodeMissingParameter},
		with(`"output_config":{"effort":"huge"}`):                    {"output_config.effort", apierror.CodeInvalidValue},
		with(`"output_config":{"format":{"type":"json_schema"}}`):    {"output_config.format.schema", apierror.CodeMissingParameter},
		with(`"speed":"warp"`):                                       {"speed", apierror.CodeInvalidValue},
		with(`"stop_sequences":["a","b","c","d","e"]`):               {"stop_sequences", apierror.CodeInvalidValue},
		with(`"context_management":[]`):                              {"context_management", apierror.CodeInvalidType},
		with(`"context_management":{"edits":{}}`):                    {"context_management.edits", apierror.CodeInvalidType},
		with(`"context_management":{"edits":[7]}`):                   {"context_management.edits[0]", apierror.CodeInvalidType},
		with(`"context_management":{"edits":[{}]}`):                  {"context_management.edits[0].type", apierror.CodeMissingParameter},
		with(`"context_management":{"edits":[{"type":"clear_01"}]}`): {"context_management.edits[0].type", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `},` + tools + `},` + tools + `},` + tools + `}]}`):                   {"context_management.edits", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"trigger":{"type":"x","value":1}}]}`):                               {"context_management.edits[0].trigger", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"trigger":{"type":"tool_uses"}}]}`):                                 {"context_management.edits[0].trigger", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"trigger":7}]}`):                                                    {"context_management.edits[0].trigger", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"keep":{"type":"input_tokens","value":1}}]}`):                       {"context_management.edits[0].keep", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"keep":{"type":"tool_uses","value":-1}}]}`):                         {"context_management.edits[0].keep", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"keep":"all"}]}`):                                                   {"context_management.edits[0].keep", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"clear_at_least":{"type":"input_tokens","value":"1"}}]}`):           {"context_management.edits[0].clear_at_least", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[` + tools + `,"exclude_tools":"f"}]}`):                                            {"context_management.edits[0].exclude_tools", apierror.CodeInvalidType},
		with(`"context_management":{"edits":[` + tools + `,"clear_tool_inputs":["f",1]}]}`):                                    {"context_management.edits[0].clear_tool_inputs[1]", apierror.CodeInvalidType},
		with(`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":0}}]}`): {"context_management.edits[0].keep", apierror.CodeInvalidValue},
		with(`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"some"}]}`):                              {"context_management.edits[0].keep", apierror.CodeInvalidValue},
		with(`"thread":{"type":"create"}`):                 {"thread", codeThread},
		with(`"mcp_servers":[{}]`):                         {"mcp_servers", apierror.CodeUnsupportedParameter},
		with(`"container":"c"`):                            {"container", apierror.CodeUnsupportedParameter},
		with(`"tools":[{"name":"f"}]`):                     {"tools[0].input_schema", apierror.CodeMissingParameter},
		with(`"tools":[{"name":"f g","input_schema":{}}]`): {"tools[0].name", apierror.CodeInvalidValue},
		with(`"tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}]`):           {"tools[1].name", apierror.CodeInvalidValue},
		with(`"tools":[{"type":"computer_20250124","name":"computer"}]`):                          {"tools[0].type", apierror.CodeUnsupportedParameter},
		with(`"tools":[{"type":"code_execution_20250522","name":"code"}]`):                        {"tools[0].type", apierror.CodeUnsupportedParameter},
		with(`"tools":[{"type":"web_search_20250305","name":"w","allowed_domains":"a"}]`):         {"tools[0].allowed_domains", apierror.CodeInvalidType},
		with(`"tool_choice":{"type":"any"}`):                                                      {"tool_choice", apierror.CodeInvalidValue},
		with(`"tool_choice":{"type":"tool"}`):                                                     {"tool_choice.name", apierror.CodeMissingParameter},
		with(`"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"g"}`): {"tool_choice", apierror.CodeInvalidValue},
	} {
		_, apiErr := Decode([]byte(body))
		if apiErr == nil || apiErr.Status != 400 || apiErr.Param != want.param || apiErr.Code != want.code {
			t.Errorf("%s\n%+v", body, apiErr)
		}
	}
}

// TestRemoteImage: an image elsewhere is refused by its place, or fetched.
func TestRemoteImage(t *testing.T) {
	const image = `{"type":"image","source":{"type":"url","url":"https://a.example/x.png"}}`
	for body, want := range map[string]string{
		ask(`{"role":"user","content":[{"type":"text","text":"q"},`+image+`]}`, `"system":"s"`): "messages[0].content[1].source.url",
		ask(`{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""},`+image+`]}]}`, ""): "messages[2].content[0].content[1].source.url",
	} {
		r, apiErr := Decode([]byte(body))
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		if _, apiErr = r.Plan(prompt.Options{}); apiErr == nil || apiErr.Param != want {
			t.Errorf("%+v, want %s", apiErr, want)
		}
		if !r.SetImages(map[string]string{"https://a.example/x.png": "data:image/png;base64," + png}) {
			t.Fatal("not set")
		}
		if _, apiErr = r.Plan(prompt.Options{}); apiErr != nil {
			t.Error(apiErr)
		}
	}
}

// TestWithoutSearch: a search that the operator does not allow is an error.
func TestWithoutSearch(t *testing.T) {
	for tools, refused := range map[string]bool{`{"type":"web_search_20250305","name":"web_search"}`: true, `{"name":"f","input_schema":{}}`: false} {
		r, apiErr := Decode([]byte(ask(`{"role":"user","content":"q"}`, `"tools":[`+tools+`]`)))
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		if apiErr := r.WithoutSearch(); (apiErr != nil) != refused {
			t.Errorf("%s: %v", tools, apiErr)
		}
	}
}

// TestDeferredArguments checks that the arguments of a deferred tool come back to the model as it
// wrote them, also if they are no JSON object.
func TestDeferredArguments(t *testing.T) {
	var d deferredTools
	for _, arguments := range []string{
		`{"name":"Web","arguments":{"q":"x"}}`,
		`{"name":"Web","arguments":{}}`,
		`{"name":"Web","arguments":"{\"q\":"}`,
		`{"name":"Web","arguments":"a \"text\""}`,
		`{"name":"Web","arguments":"[1]"}`,
	} {
		name, input, ok := unwrapCall(arguments)
		if !ok {
			t.Errorf("%s is no call", arguments)
			continue
		}
		if got := string(d.wrapArguments(name, []byte(wrapUnparsed(input)))); got != arguments {
			t.Errorf("%s comes back as %s", arguments, got)
		}
	}
}

// TestDeferredDescribedOnce: only the first text about a deferred tool has its schema.
func TestDeferredDescribedOnce(t *testing.T) {
	d := deferredTools{functionName: "call_tool"}
	d.add(prompt.Tool{Name: "Web", Schema: []byte(`{"type":"object"}`)})
	first, again := d.describe("Web"), d.describe("Web")
	if !strings.HasSuffix(first, `{"type":"object"}`) || again != "The tool Web can be called now." || !d.has("Web") {
		t.Errorf("%s\n%s", first, again)
	}
}

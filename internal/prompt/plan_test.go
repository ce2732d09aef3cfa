package prompt_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/plancheck"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func text(s string) codexrpc.UserInput { return codexrpc.UserInput{Type: "text", Text: s} }

// TestPlanConversation shows where each message goes.
func TestPlanConversation(t *testing.T) {
	const (
		made = `{"role":"assistant","content":"let me see","tool_calls":[` +
			`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": \"\\n\"}"}},` +
			`{"id":"c2","type":"function","function":{"name":"g","arguments":""}}]}`
		results = `{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":null}`
	)
	madeItems := []string{
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"let me see"}]}`,
		`{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\": \"\\n\"}"}`,
		`{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"}`,
		`{"type":"function_call_output","call_id":"c1","output":"one"}`,
		`{"type":"function_call_output","call_id":"c2","output":""}`,
	}
	for name, c := range map[string]struct {
		messages     string
		instructions string
		history      []string
		input        []codexrpc.UserInput
	}{
		"a user": {
			`{"role":"user","content":"hi \u00fc\n"}`,
			prompt.DefaultInstructions, nil, []codexrpc.UserInput{text("hi ü\n")},
		},
		"instructions": {
			`{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},{"role":"system","content":""},{"role":"user","content":"hi"}`,
			"a\n\nb\n\nc", nil, []codexrpc.UserInput{text("hi")},
		},
		"empty instructions": {
			`{"role":"system","content":""},{"role":"user","content":"hi"}`,
			prompt.DefaultInstructions, nil, []codexrpc.UserInput{text("hi")},
		},
		"instructions alone": {
			`{"role":"system","content":"a"}`,
			"a", nil, []codexrpc.UserInput{},
		},
		"later instructions stay": {
			`{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"},{"role":"developer","content":"d"}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}`,
				`{"type":"message","role":"developer","content":[{"type":"input_text","text":"b"}]}`,
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"c"}]}`,
				`{"type":"message","role":"developer","content":[{"type":"input_text","text":"d"}]}`,
			},
			[]codexrpc.UserInput{},
		},
		"ends in results": {made + `,` + results, prompt.DefaultInstructions, madeItems, []codexrpc.UserInput{}},
		"a user after results": {
			made + `,` + results + `,{"role":"user","content":"go on"}`,
			prompt.DefaultInstructions, madeItems, []codexrpc.UserInput{text("go on")},
		},
		"ends in an assistant": {
			`{"role":"user","content":"a"},{"role":"assistant","content":"b"}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}`,
			},
			[]codexrpc.UserInput{},
		},
		"assistant's parts and refusals": {
			`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}]},{"role":"assistant","content":null,"refusal":"c"},{"role":"user","content":"x"}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]}`,
			},
			[]codexrpc.UserInput{text("x")},
		},
		"text and refusal": {
			`{"role":"assistant","content":"a","refusal":"b"},{"role":"assistant","content":[{"type":"text","text":"c"}],"refusal":"d"},{"role":"assistant","content":"","refusal":"e"},{"role":"user","content":"x"}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"},{"type":"output_text","text":"d"}]}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"e"}]}`,
			},
			[]codexrpc.UserInput{text("x")},
		},
		"begins with an assistant": {
			`{"role":"assistant","content":"hello"},{"role":"user","content":"x"}`,
			prompt.DefaultInstructions,
			[]string{`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hello"}]}`},
			[]codexrpc.UserInput{text("x")},
		},
		"functions": {
			`{"role":"user","content":"x"},{"role":"assistant","content":"let me see","function_call":{"name":"f","arguments":"{\"a\":1}"}},{"role":"function","name":"f","content":"one"},` +
				`{"role":"assistant","content":null,"function_call":{"name":"exec","arguments":""}},{"role":"function","name":"exec","content":null}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"let me see"}]}`,
				`{"type":"function_call","call_id":"function_call_1","name":"f","arguments":"{\"a\":1}"}`,
				`{"type":"function_call_output","call_id":"function_call_1","output":"one"}`,
				`{"type":"function_call","call_id":"function_call_3","name":"client_exec","arguments":"{}"}`,
				`{"type":"function_call_output","call_id":"function_call_3","output":""}`,
			},
			[]codexrpc.UserInput{},
		},
		"textual calls, which may have any name": {
			`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"a b","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":"r"},` +
				`{"role":"assistant","function_call":{"name":"a b","arguments":""}},{"role":"function","name":"a b","content":"r"}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"function_call","call_id":"a","name":"a_b","arguments":"{}"}`, `{"type":"function_call_output","call_id":"a","output":"r"}`,
				`{"type":"function_call","call_id":"function_call_2","name":"a_b","arguments":"{}"}`, `{"type":"function_call_output","call_id":"function_call_2","output":"r"}`,
			},
			[]codexrpc.UserInput{},
		},
		"silent assistants leave nothing": {
			`{"role":"assistant"},{"role":"assistant","content":[]},{"role":"assistant","content":null},{"role":"assistant","content":""},{"role":"user","content":"x"}`,
			prompt.DefaultInstructions, []string{}, []codexrpc.UserInput{text("x")},
		},
		"empty users stay": {
			`{"role":"user","content":""},{"role":"user","content":[]},{"role":"user","content":null}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"message","role":"user","content":[{"type":"input_text","text":""}]}`,
				`{"type":"message","role":"user","content":[{"type":"input_text","text":""}]}`,
			},
			[]codexrpc.UserInput{text("")},
		},
		"images": {
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,iVBORw0KGgoA","detail":"low"}},{"type":"text","text":"a"}]},` +
				`{"role":"user","content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:image\/gif;base64,iVBORw0KGgoA","detail":"high"}},{"type":"image_url","image_url":{"url":"` + pngURL + `","detail":"low"}},{"type":"text","text":"c"}]}`,
			prompt.DefaultInstructions,
			[]string{`{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image\/png;base64,iVBORw0KGgoA","detail":"auto"},{"type":"input_text","text":"a"}]}`},
			[]codexrpc.UserInput{
				text("b"),
				{Type: "image", URL: "data:image/gif;base64,iVBORw0KGgoA", Detail: "high"},
				{Type: "image", URL: pngURL, Detail: "auto"},
				text("c"),
			},
		},
		"parts of a result": {
			`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"` + pngURL + `"}}]}`,
			prompt.DefaultInstructions,
			[]string{
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`,
				`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"` + pngURL + `","detail":"high"}]}`,
			},
			[]codexrpc.UserInput{},
		},
		"half a surrogate pair": {
			`{"role":"user","content":"a\ud83d"},{"role":"user","content":"\ude00b \ud83d\ude00"}`,
			prompt.DefaultInstructions,
			[]string{`{"type":"message","role":"user","content":[{"type":"input_text","text":"a\ufffd"}]}`},
			[]codexrpc.UserInput{text("\ufffdb 😀")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPlan(t, withMessages(c.messages))
			if *p.Thread.BaseInstructions != c.instructions {
				t.Errorf("instructions %q, want %q", *p.Thread.BaseInstructions, c.instructions)
			}
			var history []string
			for _, item := range p.History {
				history = append(history, string(item))
			}
			if !slices.Equal(history, c.history) {
				t.Errorf("history\n%s\nwant\n%s", strings.Join(history, "\n"), strings.Join(c.history, "\n"))
			}
			if !reflect.DeepEqual(p.Turn.Input, c.input) {
				t.Errorf("input %#v, want %#v", p.Turn.Input, c.input)
			}
		})
	}
}

// TestPlanLongInput sends texts around the limit of turn/start, in characters and over all parts.
func TestPlanLongInput(t *testing.T) {
	part := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	for name, c := range map[string]struct {
		content string
		input   bool
	}{
		"at the limit":       {`"` + strings.Repeat("a", prompt.MaxInputChars) + `"`, true},
		"beyond":             {`"` + strings.Repeat("a", prompt.MaxInputChars+1) + `"`, false},
		"beyond in parts":    {`[` + part(strings.Repeat("a", prompt.MaxInputChars)) + `,` + part("b") + `]`, false},
		"characters":         {`"` + strings.Repeat("é", prompt.MaxInputChars) + `"`, true},
		"too many":           {`"` + strings.Repeat("é", prompt.MaxInputChars+1) + `"`, false},
		"escaped characters": {`"` + strings.Repeat(`\u00e9`, prompt.MaxInputChars) + `"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPlan(t, withMessages(`{"role":"user","content":`+c.content+`}`))
			if c.input {
				if len(p.History) != 0 || len(p.Turn.Input) == 0 {
					t.Errorf("%d items and %d inputs", len(p.History), len(p.Turn.Input))
				}
				return
			}
			if len(p.History) != 1 || p.Turn.Input == nil || len(p.Turn.Input) != 0 {
				t.Errorf("%d items and input %v", len(p.History), p.Turn.Input)
			}
		})
	}
}

func TestPlanThread(t *testing.T) {
	p := mustPlan(t, withFields(`"stream":true,"stream_options":{"include_usage":true}`))
	got, err := json.Marshal(p.Thread)
	must.OK(t, err)
	want := `{"model":"m","baseInstructions":"You are a helpful assistant.","approvalPolicy":"never","sandbox":"read-only",` +
		`"ephemeral":true,"experimentalRawEvents":true,"environments":[],"config":{` +
		`"agents":{"enabled":false},` +
		`"features":{"apps":false,"code_mode":{"direct_only_tool_namespaces":["functions"]},"goals":false,"hooks":false,` +
		`"image_generation":false,"memories":false,"multi_agent":false,"plugins":false,"shell_snapshot":false,"shell_tool":false,"sleep_tool":false,` +
		`"tool_suggest":false,"unbounded_connection_retries":false,"unified_exec":false,"view_image":false},` +
		`"include_collaboration_mode_instructions":false,"include_environment_context":false,"include_permissions_instructions":false,` +
		`"model_auto_compact_token_limit":1099511627776,"project_doc_max_bytes":0,"skills":{"bundled":{"enabled":false},"include_instructions":false},"thread_unload_delay_secs":0,"tool_output_token_limit":1099511627776,"model_reasoning_summary":"auto",` +
		`"tools":{"experimental_request_user_input":{"enabled":false}},"web_search":"disabled"}}`
	if string(got) != want {
		t.Errorf("thread/start\n%s\nwant\n%s", got, want)
	}
	if !p.Stream || !p.IncludeUsage || p.Model != "m" || p.SerialTools {
		t.Errorf("plan %+v", p)
	}
}

func TestPlanSettings(t *testing.T) {
	const f = `"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{ "type": "object" }}},{"type":"function","function":{"name":"mcp__g"}}]`
	const functions = `"functions":[{"name":"f","description":"does f","parameters":{ "type": "object" }},{"name":"mcp__g"}]`
	toolF := codexrpc.DynamicTool{Type: "function", Name: "f", Description: "does f", InputSchema: json.RawMessage(`{"type":"object"}`)}
	toolG := codexrpc.DynamicTool{Type: "function", Name: "client_mcp__g", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
	both := []codexrpc.DynamicTool{toolF, toolG}
	mustCall := "In this reply you must call at least one of your tools. Do not answer with text instead."
	mustCallG := "In this reply you must call the tool client_mcp__g. Do not answer with text instead."
	for name, c := range map[string]struct {
		fields    string
		tools     []codexrpc.DynamicTool
		developer string
		schema    string
		effort    string
		serial    bool
		ignored   []string
	}{
		"nothing": {fields: `"x":1`},
		"tools":   {fields: f, tools: both},
		"a schema that Codex cuts": {
			fields: `"tools":[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"const":5}}}}}]`,
			tools: []codexrpc.DynamicTool{{Type: "function", Name: "f",
				Description: "does f\n\nFurther JSON Schema keywords of the parameters:\n- a: minimum 1",
				InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer","const":5}}}`)}},
		},
		"auto":             {fields: f + `,"tool_choice":"auto"`, tools: both},
		"none":             {fields: f + `,"tool_choice":"none"`},
		"required":         {fields: f + `,"tool_choice":"required"`, tools: both, developer: mustCall},
		"required first":   {fields: `"tool_choice":"required",` + f, tools: both, developer: mustCall},
		"named":            {fields: f + `,"tool_choice":{"type":"function","function":{"name":"mcp__g"}}`, tools: []codexrpc.DynamicTool{toolG}, developer: mustCallG},
		"allowed auto":     {fields: f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`, tools: []codexrpc.DynamicTool{toolF}},
		"allowed required": {fields: f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"mcp__g"}}]}}`, tools: both, developer: mustCall},
		"allowed one":      {fields: f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"mcp__g"}}]}}`, tools: []codexrpc.DynamicTool{toolG}, developer: mustCallG},
		"serial":           {fields: `"parallel_tool_calls":false`, serial: true},
		"serial, a tool":   {fields: f + `,"parallel_tool_calls":false`, tools: both, developer: prompt.OneCall, serial: true},
		"serial, none":     {fields: f + `,"tool_choice":"none","parallel_tool_calls":false`, serial: true},
		"parallel":         {fields: `"parallel_tool_calls":true`},
		"text":             {fields: `"response_format":{"type":"text"}`},
		"json_object":      {fields: `"response_format":{"type":"json_object"}`, developer: prompt.JSONInstruction},
		"json and calls":   {fields: f + `,"tool_choice":"required","response_format":{"type":"json_object"}`, tools: both, developer: mustCall + "\n\n" + prompt.JSONInstruction},
		"json_schema":      {fields: `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{ "type" : "object" , "x": "<&>" }}}`, schema: `{"type":"object","x":"<&>"}`},
		"json_schema that is not strict": {
			fields:    `"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"A form.","schema":{ "type" : "object" , "x": "<&>" }}}`,
			developer: prompt.SchemaInstruction + "\n\nA form.\n\n" + `{"type":"object","x":"<&>"}`,
		},
		"json_schema and calls": {
			fields: f + `,"tool_choice":"required","response_format":{"type":"json_schema","json_schema":{"name":"n","strict":false,"schema":{}}}`, tools: both,
			developer: mustCall + "\n\n" + prompt.SchemaInstruction + "\n\n{}",
		},
		"effort":    {fields: `"reasoning_effort":"xhigh"`, effort: "xhigh"},
		"no effort": {fields: `"reasoning_effort":"none"`, effort: "none"},
		"ignored": {
			fields: `"temperature":0.2,"top_p":0.5,"max_tokens":1,"stop":"x","moderation":{"model":"x"},"seed":1,"presence_penalty":1,"frequency_penalty":1,"logit_bias":{"1":2},"prediction":{"type":"content"},"user":"u","metadata":{"a":"b"},"store":true,"temperature":0.3,"prompt_cache_retention":"24h","prompt_cache_options":{}`,
			ignored: []string{"temperature", "top_p", "moderation", "seed", "presence_penalty",
				"frequency_penalty", "logit_bias", "prediction"},
		},
		"neutral values": {fields: `"temperature":1,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"logit_bias":{},"service_tier":"auto"`},
		"as floats":      {fields: `"temperature":1.0,"top_p":1.00,"presence_penalty":-0.0,"frequency_penalty":0e0`},

		"functions":         {fields: functions, tools: both, developer: prompt.OneCall, serial: true},
		"function auto":     {fields: functions + `,"function_call":"auto"`, tools: both, developer: prompt.OneCall, serial: true},
		"function none":     {fields: `"function_call":"none",` + functions, serial: true},
		"function by name":  {fields: `"function_call":{"name":"mcp__g"},` + functions, tools: []codexrpc.DynamicTool{toolG}, developer: prompt.OneCall + "\n\n" + mustCallG, serial: true},
		"parallel no more":  {fields: functions + `,"parallel_tool_calls":true`, tools: both, developer: prompt.OneCall, serial: true},
		"tool_choice, auto": {fields: functions + `,"tool_choice":"auto"`, tools: both, developer: prompt.OneCall, serial: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPlan(t, withFields(c.fields))
			if !reflect.DeepEqual(p.Thread.DynamicTools, c.tools) {
				t.Errorf("tools %s\nwant  %s", p.Thread.DynamicTools, c.tools)
			}
			if p.Thread.DeveloperInstructions != c.developer {
				t.Errorf("instructions %q, want %q", p.Thread.DeveloperInstructions, c.developer)
			}
			if string(p.Turn.OutputSchema) != c.schema || effort(p) != c.effort || p.SerialTools != c.serial {
				t.Errorf("turn %+v, serial %v", p.Turn, p.SerialTools)
			}
			if !slices.Equal(p.Ignored, c.ignored) {
				t.Errorf("ignored %v, want %v", p.Ignored, c.ignored)
			}
			for _, tool := range c.tools {
				want := strings.TrimPrefix(tool.Name, "client_")
				if got, ok := p.Tools.ClientName(tool.Name); !ok || got != want {
					t.Errorf("ClientName(%q) = %q, %v", tool.Name, got, ok)
				}
			}
			if got, ok := p.Tools.ClientName("mcp__g"); ok {
				t.Errorf("a name that Codex does not know leads to %q", got)
			}
		})
	}
}

// TestServiceTier: what Codex is asked for, and what the answer says.
func TestServiceTier(t *testing.T) {
	for given, want := range map[string][2]string{
		`null`: {"", "default"}, `"auto"`: {"", "default"}, `"default"`: {"default", "default"}, `"flex"`: {"flex", "flex"},
		`"priority"`: {"priority", "priority"}, `"fast"`: {"fast", "priority"}, `"scale"`: {"scale", "scale"},
	} {
		p := mustPlan(t, withFields(`"service_tier":`+given))
		if got := [2]string{p.Thread.ServiceTier, p.ServiceTier}; got != want || p.Ignored != nil {
			t.Errorf("%s becomes %q, want %q; ignored: %q", given, got, want, p.Ignored)
		}
	}
}

func effort(p *prompt.Plan) string {
	effort, _ := p.Thread.Config.Own["model_reasoning_effort"].(string)
	return effort
}

func TestPlanNoReasoning(t *testing.T) {
	p, err := mustDecode(t, withFields(`"n":1`)).Plan(prompt.Options{NoReasoning: true})
	if err != nil || p.Thread.Config.Own["model_reasoning_summary"] != "none" {
		t.Errorf("%v, %v", p.Thread.Config, err)
	}
}

// TestPlanLeavesRoom makes sure that an item does not run into the next when a
// caller appends to it.
func TestPlanLeavesRoom(t *testing.T) {
	p := mustPlan(t, withMessages(`{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"}`))
	second := string(p.History[1])
	_ = append(p.History[0], "overwritten"...)
	if string(p.History[1]) != second {
		t.Errorf("the second item became %s", p.History[1])
	}
}

func TestPlanLimits(t *testing.T) {
	for name, c := range map[string]struct {
		fields    string
		choices   int
		stop      []string
		maxTokens int
		legacy    bool
	}{
		"none":               {fields: `"x":1`, choices: 1},
		"choices":            {fields: `"n":8`, choices: 8},
		"the last n":         {fields: `"n":3,"n":null`, choices: 1},
		"a stop":             {fields: `"stop":"\n\u00fc"`, choices: 1, stop: []string{"\nü"}},
		"stops":              {fields: `"stop":["a","b","a"," "]`, choices: 1, stop: []string{"a", "b", " "}},
		"the last stop":      {fields: `"stop":["a"],"stop":"b"`, choices: 1, stop: []string{"b"}},
		"no stop":            {fields: `"stop":[]`, choices: 1},
		"old limit":          {fields: `"max_tokens":7`, choices: 1, maxTokens: 7},
		"new limit":          {fields: `"max_completion_tokens":9.0`, choices: 1, maxTokens: 9},
		"both":               {fields: `"max_completion_tokens":9,"max_tokens":7`, choices: 1, maxTokens: 9},
		"both, the old last": {fields: `"max_tokens":7,"max_completion_tokens":1e1`, choices: 1, maxTokens: 10},
		"new one null":       {fields: `"max_tokens":7,"max_completion_tokens":null`, choices: 1, maxTokens: 7},
		"beyond any model":   {fields: `"max_tokens":1e300`, choices: 1, maxTokens: 1<<31 - 1},
		"functions":          {fields: `"functions":[{"name":"f"}]`, choices: 1, legacy: true},
		"functions, none":    {fields: `"functions":[{"name":"f"}],"function_call":"none"`, choices: 1, legacy: true},
		"no functions":       {fields: `"functions":[]`, choices: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustPlan(t, withFields(c.fields))
			if p.Choices != c.choices || !slices.Equal(p.StopSequences, c.stop) || p.MaxTokens != c.maxTokens || p.LegacyFunctions != c.legacy {
				t.Errorf("plan %+v", p)
			}
			if p.Ignored != nil {
				t.Errorf("ignored %v", p.Ignored)
			}
		})
	}
}

func TestPlanResolve(t *testing.T) {
	resolve := func(model string) (string, string, bool) {
		if model == "m" {
			return "gpt-5", "high", false
		}
		return model, "", false
	}
	force := func(string) (string, string, bool) { return "gpt-5", "high", true }
	for name, c := range map[string]struct {
		body          string
		resolve       func(string) (string, string, bool)
		model, effort string
		ignored       []string
	}{
		"forced":            {withFields(`"reasoning_effort":"low"`), force, "gpt-5", "high", []string{"reasoning_effort"}},
		"forced, the same":  {withFields(`"reasoning_effort":"high"`), force, "gpt-5", "high", nil},
		"forced, no other":  {withFields(`"x":1`), force, "gpt-5", "high", nil},
		"alias":             {withFields(`"x":1`), resolve, "gpt-5", "high", nil},
		"effort of its own": {withFields(`"reasoning_effort":"none"`), resolve, "gpt-5", "none", nil},
		"effort null":       {withFields(`"reasoning_effort":null`), resolve, "gpt-5", "high", nil},
		"no alias":          {`{"model":"x","messages":[{"role":"user","content":"hi"}]}`, resolve, "x", "", nil},
		"no aliases":        {withFields(`"reasoning_effort":"low"`), nil, "m", "low", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustDecode(t, c.body)
			p, apiErr := r.Plan(prompt.Options{Resolve: c.resolve})
			if apiErr != nil {
				t.Fatal(apiErr)
			}
			if p.Model != r.Model || p.Thread.Model != c.model || effort(p) != c.effort || !slices.Equal(p.Ignored, c.ignored) {
				t.Errorf("model %q of %q, effort %q, ignored %q", p.Thread.Model, p.Model, effort(p), p.Ignored)
			}
		})
	}
}

func TestPlanVerbosity(t *testing.T) {
	for fields, want := range map[string]any{
		`"verbosity":"low"`:                   "low",
		`"verbosity":"medium"`:                "medium",
		`"verbosity":"high","verbosity":null`: nil,
		`"x":1`:                               nil,
	} {
		p := mustPlan(t, withFields(fields))
		if got := p.Thread.Config.Own["model_verbosity"]; got != want {
			t.Errorf("%s: verbosity %v, want %v", fields, got, want)
		}
		if p.Ignored != nil {
			t.Errorf("%s: ignored %v", fields, p.Ignored)
		}
	}
}

// TestPlaced: with each placement all instructions are there once, and the plan stays as it was.
func TestPlaced(t *testing.T) {
	plan := mustPlan(t, `{"model":"m","messages":[{"role":"system","content":"I \"am\"."},{"role":"user","content":"h"},{"role":"user","content":"q"}],`+
		`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
	mustCall := plan.Thread.DeveloperInstructions
	if mustCall == "" {
		t.Fatal("tool_choice is no instruction")
	}
	history := string(encodeItems(t, plan.History))
	item := func(text string) string {
		return fmt.Sprintf(`{"type":"message","role":"developer","content":[{"type":"input_text","text":%s}]}`, wirejson.AppendString(nil, text))
	}
	all := "I \"am\".\n\n" + mustCall
	for name, c := range map[string]struct {
		where           prompt.Placement
		base, developer any
		history         string
	}{
		"replace":               {prompt.Placement{CodexPrompt: "O"}, `I "am".`, mustCall, history},
		"replace, once":         {prompt.Placement{EmptyBase: true, CodexPrompt: "O"}, "", all, history},
		"append":                {prompt.Placement{Append: true, CodexPrompt: "O"}, nil, all, history},
		"append, once":          {prompt.Placement{Append: true, EmptyBase: true, CodexPrompt: "O"}, "", "O", "[" + item(all) + "," + history[1:]},
		"append, once, unknown": {prompt.Placement{Append: true, EmptyBase: true}, nil, all, history},
	} {
		thread, items := plan.WithPlacement(c.where)
		encoded, err := json.Marshal(thread)
		must.OK(t, err)
		var params map[string]any
		must.OK(t, json.Unmarshal(encoded, &params))
		if params["baseInstructions"] != c.base || params["developerInstructions"] != c.developer || string(encodeItems(t, items)) != c.history {
			t.Errorf("%s: %v, %v, %s", name, params["baseInstructions"], params["developerInstructions"], encodeItems(t, items))
		}
	}
	if *plan.Thread.BaseInstructions != `I "am".` || plan.Thread.DeveloperInstructions != mustCall || string(encodeItems(t, plan.History)) != history {
		t.Error("the plan has changed")
	}
}

func encodeItems(t *testing.T, items []json.RawMessage) []byte {
	t.Helper()
	encoded, err := json.Marshal(items)
	must.OK(t, err)
	return encoded
}

// FuzzPlan sends any body. What is refused must be refused in OpenAI's shape;
// what is accepted must give a plan that Codex can read.
func FuzzPlan(f *testing.F) {
	for _, body := range []string{
		withFields(`"stream":true,"stream_options":{"include_usage":true}`),
		withTool(`{"name":"exec","parameters":{"type":"object"}}`, `,"tool_choice":"required"`),
		withMessages(`{"role":"system","content":"s"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"mcp__f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"r"}]}`),
		withMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `","detail":"low"}}]},{"role":"user","content":"\ud83d"}`),
		withRemoteImages,
		withFields(`"n":8,"stop":["a","b"],"max_tokens":7,"functions":[{"name":"mcp","parameters":{}}],"function_call":{"name":"mcp"}`),
		withMessages(`{"role":"assistant","content":"x","refusal":"y","function_call":{"name":"f","arguments":""}},{"role":"function","name":"f","content":[]}`),
		withFields(`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{ "a": [1] }}}`),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		given := string(body)
		r, apiErr := chat.Decode(body)
		if string(body) != given {
			t.Fatal("the body was changed")
		}
		if apiErr != nil {
			if apiErr.Status != http.StatusBadRequest || apiErr.Type != apierror.TypeInvalidRequest || apiErr.Message == "" || !json.Valid(apiErr.Body()) {
				t.Fatalf("refused by %+v", apiErr)
			}
			return
		}
		if r.Model == "" {
			t.Fatal("a request without a model was accepted")
		}
		p, apiErr := r.Plan(prompt.Options{})
		if remote := r.RemoteImages(); len(remote) > 0 {
			if apiErr == nil || apiErr.Status != http.StatusBadRequest || apiErr.Param == "" {
				t.Fatalf("remote images %q, refused by %+v", remote, apiErr)
			}
			fetched := map[string]string{}
			for _, url := range remote {
				fetched[url] = pngURL
			}
			r.SetImages(fetched)
			p, apiErr = r.Plan(prompt.Options{})
		}
		if apiErr != nil {
			t.Fatalf("no plan: %v", apiErr)
		}
		plancheck.Check(t, p)
	})
}

const pngURL = "data:image/png;base64,iVBORw0KGgo="

func withFields(fields string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}],` + fields + `}`
}

func withMessages(messages string) string {
	return `{"model":"m","messages":[` + messages + `]}`
}

func withTool(function, more string) string {
	return withFields(`"tools":[{"type":"function","function":` + function + `}]` + more)
}

// remoteImages is a message with n images elsewhere.
func remoteImages(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`{"type":"image_url","image_url":{"url":"https://example.com/%d.png"}}`, i)
	}
	return `{"role":"user","content":[` + strings.Join(parts, ",") + `]}`
}

func mustDecode(t *testing.T, body string) *chat.Request {
	t.Helper()
	r, err := chat.Decode([]byte(body))
	if err != nil {
		t.Fatalf("%s\nrefused: %v", body, err)
	}
	return r
}

func mustPlan(t *testing.T, body string) *prompt.Plan {
	t.Helper()
	p, err := mustDecode(t, body).Plan(prompt.Options{})
	if err != nil {
		t.Fatalf("%s\nno plan: %v", body, err)
	}
	return p
}

func withInput(items string) string { return `{"model":"m","input":[` + items + `]}` }

// withRemoteImages shows one image twice, and one in a tool's result.
var withRemoteImages = withMessages(
	`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://example.com/b.png","detail":"low"}}]},` +
		`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"HTTPS:\/\/example.com\/a.png?q=\u0031"}}]},` +
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + pngURL + `"}},{"type":"image_url","image_url":{"url":"https://example.com/b.png"}}]}`)

func TestRemoteImages(t *testing.T) {
	r := mustDecode(t, withRemoteImages)
	const b, a = "https://example.com/b.png", "HTTPS://example.com/a.png?q=1"
	if got := r.RemoteImages(); !slices.Equal(got, []string{b, a}) {
		t.Fatalf("remote images %q", got)
	}
	for url, want := range map[string]string{
		b:      "messages[0].content[1].image_url.url",
		a:      "messages[2].content[0].image_url.url",
		pngURL: "",
	} {
		if got := r.ImageParam(url); got != want {
			t.Errorf("%s is at %q, want %q", url, got, want)
		}
	}
	refusedAt := func(param string) {
		t.Helper()
		_, apiErr := r.Plan(prompt.Options{})
		if apiErr == nil || apiErr.Param != param || apiErr.Code != apierror.CodeInvalidValue {
			t.Errorf("refused by %+v, want %s", apiErr, param)
		}
	}
	refusedAt("messages[0].content[1].image_url.url")
	r.SetImages(map[string]string{"https://example.com/c.png": pngURL})
	refusedAt("messages[0].content[1].image_url.url")
	r.SetImages(map[string]string{b: "data:image/gif;base64,AAAA"})
	if got := r.RemoteImages(); !slices.Equal(got, []string{a}) {
		t.Errorf("remote images %q", got)
	}
	refusedAt("messages[2].content[0].image_url.url")
	r.SetImages(map[string]string{a: "data:image/webp;base64,AAAA", b: pngURL})

	p, apiErr := r.Plan(prompt.Options{})
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	plancheck.Check(t, p)
	for i, want := range map[int]string{
		0: `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/gif;base64,AAAA","detail":"auto"}]}`,
		2: `{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/webp;base64,AAAA","detail":"high"}]}`,
	} {
		if got := string(p.History[i]); got != want {
			t.Errorf("item %d: %s, want %s", i, got, want)
		}
	}
	want := []codexrpc.UserInput{{Type: "image", URL: pngURL, Detail: "auto"}, {Type: "image", URL: "data:image/gif;base64,AAAA", Detail: "auto"}}
	if !reflect.DeepEqual(p.Turn.Input, want) {
		t.Errorf("input %+v", p.Turn.Input)
	}
}

// TestSetImagesKeepsOneBuffer makes sure that the history's buffer is large
// enough for images that were not in the body.
func TestSetImagesKeepsOneBuffer(t *testing.T) {
	r := mustDecode(t, withMessages(remoteImages(1)+`,{"role":"assistant","content":"x"}`))
	large := "data:image/png;base64," + strings.Repeat("AAAA", 1<<18)
	r.SetImages(map[string]string{"https://example.com/0.png": large})
	size := 0
	for i := range r.Messages {
		size += r.Messages[i].Size
	}
	if size < len(large) {
		t.Errorf("room for %d bytes, not for %d", size, len(large))
	}
}

// TestSetImagesTooLarge: an image that is named many times is as many copies.
func TestSetImagesTooLarge(t *testing.T) {
	const url = "https://example.com/0.png"
	part := `{"type":"image_url","image_url":{"url":"` + url + `"}}`
	large := "data:image/png;base64," + strings.Repeat("AAAA", 1<<18)
	for times, want := range map[int]bool{1: true, prompt.MaxFetchedBytes / len(large): true, prompt.MaxFetchedBytes/len(large) + 1: false, 10_000: false} {
		r := mustDecode(t, withMessages(`{"role":"user","content":[`+strings.Repeat(part+",", times-1)+part+`]}`))
		if got := r.SetImages(map[string]string{url: large}); got != want || (len(r.RemoteImages()) == 0) != want {
			t.Errorf("%d times: %t", times, got)
		}
	}
}

func planWithTools(t *testing.T, names []string, more string) *prompt.Plan {
	t.Helper()
	var tools []string
	for _, name := range names {
		tools = append(tools, `{"type":"function","function":{"name":"`+name+`"}}`)
	}
	return mustPlan(t, withFields(`"tools":[`+strings.Join(tools, ",")+`]`+more))
}

func TestToolNames(t *testing.T) {
	long := strings.Repeat("x", prompt.MaxToolName-len("mcp__"))
	reserved := []string{ // Codex would not offer them
		"mcp", "mcp__", "mcp__a__b", "exec_command", "shell_command", "apply_patch", "exec", "wait", "request_user_input",
		"request_user_input_async", "list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource", "update_plan", "skills",
	}
	var renamed []string
	for _, name := range reserved {
		renamed = append(renamed, "client_"+name)
	}
	for _, c := range []struct{ client, codex []string }{
		{reserved, renamed},
		{[]string{"readNote", "shell", "Mcp__x", "mcp_x", "exec_Command"}, []string{"readNote", "shell", "Mcp__x", "mcp_x", "exec_Command"}},
		{[]string{"exec", "client_exec"}, []string{"client_exec_2", "client_exec"}},
		{[]string{"client_exec", "client_exec_2", "exec"}, []string{"client_exec", "client_exec_2", "client_exec_3"}},
		{[]string{"mcp__" + long}, []string{"client_mcp__" + long[:prompt.MaxToolName-len("client_mcp__")]}},
		{
			[]string{"mcp__" + long, "mcp__" + long[:len(long)-1] + "y"},
			[]string{"client_mcp__" + long[:prompt.MaxToolName-len("client_mcp__")], "client_mcp__" + long[:prompt.MaxToolName-len("client_mcp___2")] + "_2"},
		},
	} {
		p := planWithTools(t, c.client, "")
		var codex []string
		for i, tool := range p.Thread.DynamicTools {
			codex = append(codex, tool.Name)
			if back, ok := p.Tools.ClientName(tool.Name); !ok || back != c.client[i] {
				t.Errorf("%q leads back to %q, not %q", tool.Name, back, c.client[i])
			}
		}
		if !slices.Equal(codex, c.codex) {
			t.Errorf("%q became %q, want %q", c.client, codex, c.codex)
		}
	}
}

func TestToolNamesInHistory(t *testing.T) {
	call := func(name string) string {
		return fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":%q,"arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}`, name)
	}
	body := `{"model":"m","messages":[` + call("exec") + `,` + call("mcp__gone") + `,` + call("plain") + `],` +
		`"tools":[{"type":"function","function":{"name":"exec"}},{"type":"function","function":{"name":"client_exec"}}]}`
	p := mustPlan(t, body)
	for i, want := range []string{"client_exec_2", "client_mcp__gone", "plain"} {
		if item := string(p.History[2*i]); !strings.Contains(item, `"name":"`+want+`"`) {
			t.Errorf("item %s does not call %s", item, want)
		}
	}
}

// TestToolNamesOfManyTools takes the worst case for numbering: cut names that all
// come out the same.
func TestToolNamesOfManyTools(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, "mcp__"+strings.Repeat("x", 119)+fmt.Sprintf("%04d", i))
	}
	p := planWithTools(t, names, "")
	seen := map[string]bool{}
	for _, tool := range p.Thread.DynamicTools {
		if seen[tool.Name] || len(tool.Name) > 128 {
			t.Fatalf("name %q", tool.Name)
		}
		seen[tool.Name] = true
	}
}

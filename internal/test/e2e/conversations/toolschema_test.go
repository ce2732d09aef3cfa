package conversations

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/chat"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/codexschema"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// schemaKeywords maps the keywords of all drafts and some generators to values.
var schemaKeywords = map[string]string{
	"type": `"string"`, "description": `"x"`, "encrypted": `true`, "enum": `["a",1,null]`, "const": `5`,
	"items": `{"type":"number","minimum":1}`, "properties": `{"p":{"type":"string","pattern":"a"}}`,
	"required": `["p"]`, "additionalProperties": `{"type":"string","default":"a"}`,
	"anyOf": `[{"type":"string","format":"date"},true]`, "oneOf": `[{"const":1},{}]`, "allOf": `[{"$ref":"#"}]`,
	"$ref": `"#/$defs/A"`, "$defs": `{"B":{"type":"string","minLength":1}}`, "definitions": `{"B":{"enum":[1]}}`,
	"title": `"x"`, "default": `1`, "examples": `[1]`, "example": `1`, "deprecated": `true`, "readOnly": `true`, "writeOnly": `true`,
	"minimum": `1`, "maximum": `1`, "exclusiveMinimum": `1`, "exclusiveMaximum": `1`, "multipleOf": `2`,
	"minLength": `1`, "maxLength": `1`, "pattern": `"a"`, "format": `"date"`,
	"contentEncoding": `"base64"`, "contentMediaType": `"x/y"`, "contentSchema": `{"type":"string"}`,
	"prefixItems": `[{"type":"string"}]`, "additionalItems": `false`, "unevaluatedItems": `false`,
	"contains": `{"type":"string"}`, "minContains": `1`, "maxContains": `1`, "minItems": `1`, "maxItems": `1`, "uniqueItems": `true`,
	"patternProperties": `{"a":{"type":"string"}}`, "propertyNames": `{"pattern":"a"}`, "minProperties": `1`, "maxProperties": `1`,
	"unevaluatedProperties": `false`, "dependencies": `{"a":["b"]}`, "dependentRequired": `{"a":["b"]}`, "dependentSchemas": `{"a":{"type":"object"}}`,
	"if": `{"type":"string"}`, "then": `{"type":"string"}`, "else": `{"type":"string"}`, "not": `{"type":"string"}`,
	"nullable": `true`, "discriminator": `{"propertyName":"a"}`, "xml": `{}`, "externalDocs": `{"url":"x"}`, "optional": `true`, "strict": `true`,
	"$schema": `"x"`, "$id": `"x"`, "id": `"x"`, "$comment": `"x"`, "$anchor": `"x"`, "$dynamicAnchor": `"x"`, "$dynamicRef": `"#x"`,
	"$recursiveRef": `"#"`, "$recursiveAnchor": `true`, "$vocabulary": `{}`,
	"x-own": `1`, "enumNames": `["a"]`, "enumDescriptions": `["a"]`, "markdownDescription": `"x"`, "errorMessage": `"x"`, "propertyOrdering": `["a"]`,
}

// schemaOf returns the schema of a tool with one argument.
func schemaOf(argument string) string {
	return `{"type":"object","properties":{"v":` + argument + `},"$defs":{"A":{"type":"string","maxLength":2},"Unused":{"type":"string"}}}`
}

// schemaCases returns schemas with each keyword and type, and others that Codex rewrites.
func schemaCases() (cases []string) {
	for _, keyword := range slices.Sorted(maps.Keys(schemaKeywords)) {
		member := fmt.Sprintf("%q:%s", keyword, schemaKeywords[keyword])
		for _, base := range []string{"", `"type":"string",`, `"type":"object",`, `"type":"array",`, `"type":["integer","null"],`} {
			if keyword != "type" || base == "" {
				cases = append(cases, schemaOf("{"+base+member+"}"))
			}
		}
	}
	for _, argument := range []string{
		`{}`, `true`, `false`, `{"type":"any"}`, `{"type":[]}`, `{"type":["string"]}`, `{"type":"null"}`, `{"type":5}`,
		`{"description":null,"type":"string","enum":null}`, `{"const":null}`, `{"const":[1]}`, `{"enum":[]}`, `{"const":1,"enum":[1,2],"type":"integer"}`,
		`{"items":true}`, `{"type":"array","items":false}`, `{"$ref":"#"}`, `{"$ref":"#x"}`, `{"$ref":"http://x/y"}`,
		`{"format":"int32","minimum":0}`, `{"anyOf":[]}`, `{"$defs":[]}`, `{"required":null,"minItems":2}`,
		`{"type":"number","enum":[1e15,1.50,-0]}`,
	} {
		cases = append(cases, schemaOf(argument))
	}
	cases = append(cases, `{}`, `{"type":"string"}`, `{"type":["object","null"]}`, `{"anyOf":[{"required":["a"]}]}`,
		`{"$ref":"#/definitions/a%20b","definitions":{"a b":{"properties":{"c":{"$ref":"#/definitions/c"}}},"c":{"not":{}},"d":{}}}`)
	return append(cases, longSchemas()...)
}

// longSchemas returns schemas around the length above which Codex shortens them.
func longSchemas() (cases []string) {
	described := func(n int, text string) string {
		return schemaOf(`{"type":"string","description":"` + strings.Repeat(text, n) + `"},"w":{"type":"object","properties":{"x":{"$ref":"#/$defs/A"}},"description":"W"}`)
	}
	frame := len(described(0, "")) - len(`,"maxLength":2`) - len(`,"Unused":{"type":"string"}`)
	for _, more := range []int{0, 1} {
		cases = append(cases, described(codexschema.Budget-frame+more, "x"), described((codexschema.Budget-frame)/2+more, "é"))
	}
	var wide []string
	for i := range 60 {
		wide = append(wide, fmt.Sprintf(`"k%d":{"type":"string","enum":["%080d"]}`, i, i))
	}
	many := strings.Join(wide, ",")
	nested := `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"type":"string"},"d":{"anyOf":[{"type":"string"}]}}},"e":{"type":"array","items":{"type":"array","items":{"type":"string"}}}}}}}`
	return append(cases,
		schemaOf(nested+`,"ref":{"$ref":"#/$defs/A"},"any":{"anyOf":[{"type":"string"},`+nested+`]},`+many),
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"b":`+nested+`},"$defs":{"A":{"type":"object","properties":{`+many+`}}}}`,
		schemaOf(nested+`,"all":{"allOf":[`+nested+`]},"map":{"type":"object","additionalProperties":{"oneOf":[{"type":"object","properties":{`+many+`}}]}}`),
	)
}

// bareCodex is a codex without Caddy.
type bareCodex struct {
	t     *testing.T
	conn  *codexrpc.Conn
	model *scriptedmodel.Server
	plan  *prompt.Plan // plan of an ordinary request
}

func newBareCodex(t *testing.T) *bareCodex {
	t.Helper()
	model := scriptedmodel.New(scriptedmodel.Options{})
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	t.Cleanup(model.Close)
	home := t.TempDir()
	e2e.WriteHome(t, home, server.URL+"/v1", codexhome.Options{})
	process := appserver.New(appserver.Config{Command: []string{e2e.CodexBinary, "app-server"}, Home: home,
		Client: codexrpc.ClientInfo{Name: "test", Title: "test", Version: "0"}}, nil)
	process.Start()
	t.Cleanup(process.Stop)
	in, err := process.Instance(e2e.Context(t))
	must.OK(t, err)
	request, refusal := chat.Decode([]byte(e2e.ChatBody("say:ok", nil)))
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	plan, refusal := request.Plan(prompt.Options{})
	if refusal != nil {
		t.Fatal(refusal.Message)
	}
	return &bareCodex{t, in.Conn(), model, plan}
}

// offer runs a turn with a tool for each schema, and returns what the model gets, or the error.
func (c *bareCodex) offer(schemas ...string) ([]codexschema.Schema, error) {
	c.t.Helper()
	ctx := e2e.Context(c.t)
	params := c.plan.Thread
	for i, schema := range schemas {
		params.DynamicTools = append(params.DynamicTools, codexrpc.DynamicTool{
			Type: "function", Name: fmt.Sprint("tool_", i), InputSchema: json.RawMessage(schema),
		})
	}
	thread, err := c.conn.StartThread(ctx, params)
	if err != nil {
		return nil, err
	}
	defer thread.Close(func() {})
	must.OK(c.t, thread.StartTurn(ctx, c.plan.Turn))
	select {
	case <-thread.Ended():
	case <-ctx.Done():
		c.t.Fatal("the turn does not end")
	}
	request, _ := c.model.Last()
	offered := make([]codexschema.Schema, len(schemas))
	for _, tool := range request.Tools {
		var i int
		if _, err := fmt.Sscanf(tool.Name, "tool_%d", &i); err == nil {
			offered[i] = decodeSchema(c.t, tool.Parameters)
		}
	}
	return offered, nil
}

func decodeSchema(t testing.TB, text []byte) codexschema.Schema {
	t.Helper()
	schema, err := codexschema.Decode(text)
	must.OK(t, err)
	return schema.(codexschema.Schema)
}

// TestCodexSchemas compares Codex with codexschema. If it fails, change that and schemafit.go.
func TestCodexSchemas(t *testing.T) {
	c := newBareCodex(t)
	const atOnce = 200
	for some := range slices.Chunk(schemaCases(), atOnce) {
		offered, err := c.offer(some...)
		must.OK(t, err)
		for i, schema := range some {
			want, err := codexschema.Offered([]byte(schema))
			if err != nil {
				t.Fatalf("%s is believed to be refused: %v", schema, err)
			}
			// Through JSON, since lists have several types in Go.
			if got, want := e2e.EncodeJSON(offered[i]), e2e.EncodeJSON(want); got != want {
				t.Errorf("%s\nis offered as\n%s\nbelieved is\n%s", schema, got, want)
			}
		}
	}
	for _, schema := range refusedSchemas {
		if _, err := codexschema.Offered([]byte(schema)); err == nil {
			t.Errorf("%s is believed to be taken", schema)
		}
		if _, err := c.offer(schema); err == nil {
			t.Errorf("Codex takes %s", schema)
		}
	}
}

// refusedSchemas are schemas for which Codex refuses the thread.
var refusedSchemas = []string{
	`{"type":"null"}`,
	schemaOf(`"string"`),
	schemaOf(`{"required":true}`),
	schemaOf(`{"required":[1]}`),
	schemaOf(`{"items":[{}]}`),
	schemaOf(`{"type":"string","description":5}`),
	schemaOf(`{"type":"string","encrypted":"x"}`),
	schemaOf(`{"type":"object","properties":[]}`),
	schemaOf(`{"type":"object","additionalProperties":"x"}`),
	schemaOf(`{"type":"array","minItems":1.0}`),
	schemaOf(`{"enum":"a"}`),
	schemaOf(`{"anyOf":{"type":"string"}}`),
	schemaOf(`{"$ref":5}`),
}

// agentTools returns tools like those of a coding agent.
func agentTools(t testing.TB) []json.RawMessage {
	t.Helper()
	text := e2e.ReadFile(t, "testdata/agent_tools.json")
	var tools []json.RawMessage
	must.OK(t, json.Unmarshal([]byte(text), &tools))
	return tools
}

// TestAgentTools: of an agent's tools and of every keyword the model gets all, in the schema or in
// the description. Newer models get their tools in another place of the request.
func TestAgentTools(t *testing.T) {
	s := e2e.NewSite(t, "")
	for _, model := range []string{"gpt-5", "gpt-5.5", "gpt-6.1-terra"} {
		t.Run(model, func(t *testing.T) { checkAgentTools(t, s.At(t), model) })
	}
}

func checkAgentTools(t *testing.T, s *e2e.Site, model string) {
	tools := agentTools(t)
	for i, schema := range append(schemaCases(), refusedSchemas[1:]...) {
		tools = append(tools, json.RawMessage(fmt.Sprintf(`{"name":"case_%d","description":"A case.","parameters":%s}`, i, schema)))
	}
	for some := range slices.Chunk(tools, 200) {
		declared := make([]any, len(some))
		flat := make([]any, len(some))
		for i, tool := range some {
			declared[i] = map[string]any{"type": "function", "function": tool}
			flat[i] = json.RawMessage(`{"type":"function",` + string(tool[1:]))
		}
		response, body := s.Post(e2e.ChatBody("say:ok", map[string]any{"model": model, "tools": declared}), nil)
		if response.StatusCode != http.StatusOK {
			t.Fatal(body)
		}
		inChat := checkKnown(t, s, some)
		response, body = s.Call(http.MethodPost, "/v1/responses", map[string]any{"model": model, "input": "say:ok", "tools": flat}, nil)
		if response.StatusCode != http.StatusOK {
			t.Fatal(body)
		}
		if inResponses := checkKnown(t, s, some); !reflect.DeepEqual(inChat, inResponses) {
			t.Error("the Responses API offers other tools than chat completions")
		}
	}
}

func addTools(t testing.TB, to map[string]scriptedmodel.Tool, list gjson.Result) {
	t.Helper()
	for _, raw := range list.Array() {
		var tool scriptedmodel.Tool
		must.OK(t, json.Unmarshal([]byte(raw.Raw), &tool))
		if to[tool.Name] = tool; tool.Type == "namespace" {
			addTools(t, to, raw.Get("tools"))
		}
	}
}

// checkKnown checks the last request to the model, and returns its tools.
func checkKnown(t *testing.T, s *e2e.Site, tools []json.RawMessage) map[string]scriptedmodel.Tool {
	t.Helper()
	offered := map[string]scriptedmodel.Tool{}
	request, _ := s.Model.Last()
	addTools(t, offered, gjson.GetBytes(request.Body, "tools"))
	for _, item := range gjson.GetBytes(request.Body, `input.#(type=="additional_tools")#`).Array() {
		addTools(t, offered, item.Get("tools"))
	}
	for _, declared := range tools {
		tool := gjson.ParseBytes(declared)
		name, description := tool.Get("name").Str, tool.Get("description").Str
		schema := compactJSON(t, tool.Get("parameters").Raw)
		words, ok := strings.CutPrefix(offered[name].Description, description)
		if !ok {
			t.Errorf("%s is described as %q", name, offered[name].Description)
			continue
		}
		if err := codexschema.Missing([]byte(schema), decodeSchema(t, offered[name].Parameters), strings.TrimPrefix(words, "\n\n")); err != nil {
			t.Errorf("%s: %v\n%s\n%s%s", name, err, schema, offered[name].Parameters, words)
		}
	}
	return offered
}

func compactJSON(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	compact := json.RawMessage(text)
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must.OK(t, e.Encode(compact))
	return strings.TrimSuffix(b.String(), "\n")
}

package openai

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// toolForm is what a tool of a Responses request is to its client, where that is
// more than a function: Codex and the model know functions only.
type toolForm struct {
	kind      string // the type of its calls: function_call, custom_tool_call, tool_search_call
	namespace string
	name      string // within its namespace
}

// searchTool is the function that stands for a tool_search.
const searchTool = "tool_search"

// customSchema is the schema of the function that stands for a custom tool,
// which takes any text.
var customSchema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)

// customArguments are the arguments of that function for an input, which is a
// JSON string.
func customArguments(input jsontext.Value) []byte {
	arguments := append([]byte(nil), `{"input":`...)
	arguments = append(arguments, input...)
	return append(arguments, '}')
}

// plainNamespace is the namespace of the tools that have none.
const plainNamespace = "functions"

// joinName is the name of a tool in a namespace, as one function.
func joinName(namespace, name string) string {
	if namespace == "" || namespace == plainNamespace {
		return name
	}
	return cutName(namespace+"__"+name, "")
}

// moreTool is a tool that stands in an input item.
type moreTool struct {
	tool
	form toolForm
}

func (r *ResponseRequest) readTools(v jsontext.Value) *fault {
	r.tools, r.declared, r.forms, r.echo.tools = nil, nil, nil, nil
	r.hosted, r.skipped = nil, nil
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		if i == maxTools {
			return wrongValue("must hold at most %d tools", maxTools)
		}
		tools, f := readResponseTool(v, "")
		if f != nil && f.code == codeHosted {
			r.skipHosted(f.at(i).in("tools"))
			continue
		}
		if f != nil {
			return f.at(i)
		}
		for _, t := range tools {
			if f := r.addTool(t); f != nil {
				return f.at(i)
			}
		}
		r.echo.tools = append(r.echo.tools, v)
	}
	return nil
}

// skipHosted remembers a hosted tool. Every client but Codex is refused with
// it: Codex adds such tools by itself, needs none of them, and has no other way
// to learn that they are not there.
func (r *ResponseRequest) skipHosted(f *fault) {
	if r.hosted == nil {
		r.hosted = &fault{path: f.path, problem: f.problem, code: CodeUnsupportedParameter}
	}
	r.skipped = append(r.skipped, strings.TrimSuffix(f.path, ".type"))
}

// addTool declares a tool.
func (r *ResponseRequest) addTool(t moreTool) *fault {
	if r.declared[t.name] {
		return wrongValue("the name %q is used twice", t.name).in("name")
	}
	if len(r.tools) == maxTools {
		return wrongValue("there must be at most %d tools", maxTools)
	}
	if r.declared == nil {
		r.declared = map[string]bool{}
	}
	r.declared[t.name] = true
	r.tools = append(r.tools, t.tool)
	if t.form.kind != itemCall || t.form.namespace != "" {
		if r.forms == nil {
			r.forms = map[string]toolForm{}
		}
		r.forms[t.name] = t.form
	}
	return nil
}

// readMoreTools reads the tools of an input item. Hosted ones in it were never
// the client's own idea: another tool has found them.
func (r *ResponseRequest) readMoreTools(v jsontext.Value) *fault {
	if f := expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		tools, f := readResponseTool(v, "")
		if f != nil && f.code == codeHosted {
			f = f.at(i)
			f.code = CodeUnsupportedParameter
			return f
		}
		if f != nil {
			return f.at(i)
		}
		if r.more = append(r.more, tools...); len(r.more) > maxItems {
			return tooManyItems()
		}
	}
	return nil
}

// addMoreTools declares the tools of input items that are not declared yet.
func (r *ResponseRequest) addMoreTools() *fault {
	for _, t := range r.more {
		if r.declared[t.name] {
			continue
		}
		if f := r.addTool(t); f != nil {
			return f
		}
	}
	return nil
}

// codeHosted marks the fault of a tool that only OpenAI can run. It never
// reaches a client.
const codeHosted Code = "hosted_tool"

// readResponseTool reads a tool (Tool): the functions that stand for it.
func readResponseTool(v jsontext.Value, namespace string) ([]moreTool, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return nil, f
	}
	var kind, execution jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("execution", &execution))
	if f := expect(jsontext.KindString, kind); f != nil {
		return nil, f.in("type")
	}
	switch kind := kind.Text(); {
	case kind == "function":
		t, f := readToolFunction(v)
		return oneTool(itemCall, namespace, t), f
	case kind == "custom":
		t, f := readCustomTool(v)
		return oneTool(itemCustom, namespace, t), f
	case kind == "namespace" && namespace == "":
		return readNamespace(v)
	case kind == searchTool && execution.Is("client"):
		t, f := readSearchTool(v)
		return oneTool(itemSearch, "", t), f
	default:
		return nil, (&fault{
			problem: "'" + cutText(kind, 64) + "' is not supported: tools that are not the client's own do not run here; use function or custom",
			code:    codeHosted,
		}).in("type")
	}
}

func cutText(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

func oneTool(kind, namespace string, t tool) []moreTool {
	form := toolForm{kind, namespace, t.name}
	t.name = joinName(namespace, t.name)
	return []moreTool{{t, form}}
}

// readNamespace reads a namespace: tools that share the beginning of a name.
func readNamespace(v jsontext.Value) ([]moreTool, *fault) {
	var nameOf, tools jsontext.Value
	v.Pick(jsontext.Into("name", &nameOf), jsontext.Into("tools", &tools))
	namespace, f := readToolName(nameOf)
	if f != nil {
		return nil, f.in("name")
	}
	if f := expect(jsontext.KindArray, tools); f != nil {
		return nil, f.in("tools")
	}
	var all []moreTool
	for i, v := range tools.Elements() {
		some, f := readResponseTool(v, namespace)
		if f != nil {
			return nil, f.at(i).in("tools")
		}
		if all = append(all, some...); len(all) > maxTools {
			return nil, wrongValue("must hold at most %d tools", maxTools).in("tools")
		}
	}
	return all, nil
}

// readCustomTool reads a custom tool. Its grammar is told to the model, which
// Codex cannot hold to it.
func readCustomTool(v jsontext.Value) (t tool, _ *fault) {
	var nameOf, description, format jsontext.Value
	v.Pick(jsontext.Into("name", &nameOf), jsontext.Into("description", &description), jsontext.Into("format", &format))
	var f *fault
	if t.name, f = readToolName(nameOf); f != nil {
		return t, f.in("name")
	}
	if f := optional(jsontext.KindString, description); f != nil {
		return t, f.in("description")
	}
	var parts []string
	if description.Given() {
		parts = append(parts, description.Text())
	}
	parts = append(parts, "The text goes into the argument `input`, as it is.")
	grammar, f := readGrammar(format)
	if f != nil {
		return t, f.in("format")
	}
	if grammar != "" {
		parts = append(parts, "It must follow this grammar:\n"+grammar)
	}
	t.description = strings.Join(parts, "\n\n")
	t.schema = customSchema
	return t, nil
}

// readGrammar reads the format of a custom tool; empty: any text.
func readGrammar(v jsontext.Value) (string, *fault) {
	if !v.Given() {
		return "", nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var kind, definition jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("definition", &definition))
	switch {
	case kind.Is("text"):
		return "", nil
	case !kind.Is("grammar"):
		return "", wrongValue("must be text or grammar").in("type")
	}
	if f := expect(jsontext.KindString, definition); f != nil {
		return "", f.in("definition")
	}
	return definition.Text(), nil
}

// readSearchTool reads a search for tools that the client runs itself.
func readSearchTool(v jsontext.Value) (tool, *fault) {
	var description, parameters jsontext.Value
	v.Pick(jsontext.Into("description", &description), jsontext.Into("parameters", &parameters))
	t := tool{name: searchTool, schema: emptySchema}
	if f := optional(jsontext.KindString, description); f != nil {
		return t, f.in("description")
	}
	if description.Given() {
		t.description = description.Text()
	}
	if f := optional(jsontext.KindObject, parameters); f != nil {
		return t, f.in("parameters")
	}
	if parameters.Given() {
		t.schema = parameters.Compact()
	}
	return t, nil
}

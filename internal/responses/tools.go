package responses

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// originalTool is a tool as the client declared it. Codex and the model know plain functions only.
type originalTool struct {
	callType  string // the type of its calls, for example function_call
	namespace string
	name      string // the name of the tool within the namespace
}

// toolSearchTool is the name of the function that stands for a tool_search.
const toolSearchTool = "tool_search"

// plainNamespace is a namespace that means the same as no namespace.
const plainNamespace = "functions"

func functionName(namespace, name string) string {
	if namespace == "" || namespace == plainNamespace {
		return name
	}
	return prompt.CutName(namespace+"__"+name, "")
}

// declaredTool is a function for the model, and the tool for which the function stands.
type declaredTool struct {
	prompt.Tool
	original originalTool
}

func (r *Request) readTools(v wirejson.Value) *field.Error {
	r.Tools, r.originalTools, r.echoed.Tools = nil, nil, nil
	r.skippedToolError, r.skippedTools, r.Search, r.searchTool = nil, nil, nil, nil
	return field.Elements(v, prompt.MaxTools, "tools", r.readDeclaredTool)
}

func (r *Request) readDeclaredTool(i int, v wirejson.Value) *field.Error {
	tools, f := readTool(v, "")
	if f != nil && f.Code == codeHosted {
		var kind wirejson.Value
		v.Pick(wirejson.Into("type", &kind))
		if prompt.IsWebSearch(kind.Text()) {
			return r.readWebSearch(v)
		}
		r.skipHostedTool(f.At(i).In("tools"))
		return nil
	}
	for _, t := range tools {
		f = cmp.Or(f, r.addTool(t))
	}
	if f == nil {
		r.echoed.Tools = append(r.echoed.Tools, completeTool(v))
	}
	return f
}

// skipHostedTool records a tool that only OpenAI can run, and the error f about it. Codex as a client adds
// such tools itself, and works without them: the tool is ignored. Requests of other clients fail with f.
func (r *Request) skipHostedTool(f *field.Error) {
	f.Code = apierror.CodeUnsupportedParameter
	r.skippedToolError = cmp.Or(r.skippedToolError, f)
	r.skippedTools = append(r.skippedTools, strings.TrimSuffix(f.Path, ".type"))
}

func (r *Request) addTool(t declaredTool) *field.Error {
	if f := prompt.AddName(&r.originalTools, t.Name, t.original); f != nil {
		return f
	}
	if len(r.Tools) == prompt.MaxTools {
		return field.Invalid("there must be at most %d tools", prompt.MaxTools)
	}
	r.Tools = append(r.Tools, t.Tool)
	return nil
}

// readInputTools reads the tools that an input item declares. A tool that only OpenAI can run is an error
// here, even if the client is Codex, which adds such tools only to the field tools.
func (r *Request) readInputTools(v wirejson.Value) *field.Error {
	if f := field.Expect(wirejson.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		tools, f := readTool(v, "")
		if f != nil {
			if f.Code == codeHosted {
				f.Code = apierror.CodeUnsupportedParameter
			}
			return f.At(i)
		}
		if r.inputTools = append(r.inputTools, tools...); len(r.inputTools) > prompt.MaxItems {
			return prompt.TooManyItems()
		}
	}
	return nil
}

// addInputTools adds the tools that the input items declare, except those that the request has already.
func (r *Request) addInputTools() *field.Error {
	for _, t := range r.inputTools {
		if _, declared := r.originalTools[t.Name]; declared {
			continue
		}
		if f := r.addTool(t); f != nil {
			return f
		}
	}
	return nil
}

// codeHosted is the code of readTool's error for a tool that the client does not run. The callers
// of readTool handle this error or replace its code, so this code is never sent.
const codeHosted apierror.Code = "hosted_tool"

// readTool reads a tool (Tool), and returns the functions that stand for the tool.
func readTool(v wirejson.Value, namespace string) ([]declaredTool, *field.Error) {
	var t, execution wirejson.Value
	if f := field.Typed(&t, v, wirejson.Into("execution", &execution)); f != nil {
		return nil, f
	}
	switch kind := t.Text(); {
	case clientTools[kind].callType != "" && namespace == "":
		t, f := readClientTool(kind, v)
		return []declaredTool{t}, f
	case kind == "function":
		t, f := prompt.ReadFunction(v)
		return oneTool(typeFunctionCall, namespace, t), f
	case kind == "custom":
		t, f := prompt.ReadCustomTool(v, true)
		return oneTool(typeCustomCall, namespace, t), f
	case kind == "namespace" && namespace == "":
		return readNamespace(v)
	case kind == toolSearchTool && execution.Is("client"):
		t, f := readSearchTool(v)
		return oneTool(typeToolSearch, "", t), f
	default:
		reason := cmp.Or(insteadOf[kind], "tools that are not the client's own do not run here")
		f := field.Unsupported("'%s' is not supported: %s", strings.ToValidUTF8(kind[:min(len(kind), 64)], ""), reason)
		if kind != "local_shell" { // an error even for Codex, which must not lose its shell silently
			f.Code = codeHosted
		}
		return nil, f.In("type")
	}
}

func oneTool(callType, namespace string, t prompt.Tool) []declaredTool {
	original := originalTool{callType, namespace, t.Name}
	t.Name = functionName(namespace, t.Name)
	return []declaredTool{{t, original}}
}

func readNamespace(v wirejson.Value) (all []declaredTool, _ *field.Error) {
	var name, tools wirejson.Value
	v.Pick(wirejson.Into("name", &name), wirejson.Into("tools", &tools))
	var namespace string
	f := cmp.Or(prompt.ReadToolName(&namespace, name).In("name"), field.Expect(wirejson.KindArray, tools).In("tools"))
	f = cmp.Or(f, field.Elements(tools, prompt.MaxTools, "tools", func(_ int, v wirejson.Value) *field.Error {
		some, f := readTool(v, namespace)
		all = append(all, some...)
		return f
	}).In("tools"))
	return all, f
}

// readSearchTool reads a tool_search: the model searches for further tools, and the client runs the search.
func readSearchTool(v wirejson.Value) (prompt.Tool, *field.Error) {
	var description, parameters wirejson.Value
	v.Pick(wirejson.Into("description", &description), wirejson.Into("parameters", &parameters))
	t := prompt.Tool{Name: toolSearchTool}
	f := cmp.Or(field.Text(&t.Description, description).In("description"), prompt.ReadSchema(&t.Schema, parameters).In("parameters"))
	return t, f
}

func (r *Request) readToolChoice(v wirejson.Value) *field.Error {
	r.echoed.ToolChoice = v.OrAbsent()
	return r.Choice.Read(v, readChoice)
}

// readChoice reads a choice that is an object (ToolChoiceFunction, ToolChoiceCustom,
// ToolChoiceAllowed, ToolChoiceTypes for a hosted tool).
func readChoice(c *prompt.ToolChoice, v wirejson.Value) *field.Error {
	var kind wirejson.Value
	v.Pick(wirejson.Into("type", &kind))
	if kind.Is("allowed_tools") {
		return c.ReadAllowed(v, readChosenTool)
	}
	if c.Search = kind.Kind() == wirejson.KindString && prompt.IsWebSearch(kind.Text()); c.Search {
		return nil
	}
	return c.Require(readChosenTool(v))
}

// readChosenTool returns the name of the function that stands for the chosen tool. The choice has the type
// function or custom, and a name. If the tool is in clientTools, the choice needs only a type.
func readChosenTool(v wirejson.Value) (string, *field.Error) {
	var t, name, namespace wirejson.Value
	f := field.Typed(&t, v, wirejson.Into("name", &name), wirejson.Into("namespace", &namespace))
	if f != nil {
		return "", f
	}
	switch kind := t.Text(); {
	case clientTools[kind].callType != "":
		return kind, nil
	case kind != "function" && kind != "custom":
		return "", field.Unsupported("must name a tool of the client's own: other tools do not run here").In("type")
	}
	var chosenName, chosenNamespace string
	f = cmp.Or(field.NonEmpty(name).In("name"), field.Text(&chosenName, name), field.Text(&chosenNamespace, namespace).In("namespace"))
	return functionName(chosenNamespace, chosenName), f
}

// typeWebSearch is the type of the items for web searches. The provider runs them, not the client.
const typeWebSearch = "web_search_call"

func (r *Request) readWebSearch(v wirejson.Value) (f *field.Error) {
	if r.searchTool != nil {
		return field.Invalid("there is such a tool already").In("type")
	}
	r.searchTool = v
	r.echoed.Tools = append(r.echoed.Tools, v)
	r.Search, f = prompt.ReadWebSearch(v)
	return f
}

// WithoutSearch is called if the operator allows no web searches. It fails if the request has the tool for
// web searches. But if the client is Codex, which works without this tool, it removes the tool instead.
func (r *Request) WithoutSearch() *apierror.Error {
	if r.searchTool == nil {
		return nil
	}
	path := field.PathOf(r.Body, r.searchTool)
	if !r.isCodex {
		return field.Unsupported("is a web search, which is off on this server; its operator can allow it with the option web_search").In("type").In(path).APIError()
	}
	r.Search = nil
	r.Ignore(path)
	r.echoed.Tools = slices.DeleteFunc(r.echoed.Tools, r.searchTool.IsSame)
	return nil
}

// searchAction returns the action of a web search. text is the action as Codex reported it, or empty. If
// OpenAI's API has no action of this type, the result is the action search without other members.
func searchAction(text string) json.RawMessage {
	action, _ := wirejson.Parse([]byte(text)) // nil, without members, if it is no JSON
	var kind wirejson.Value
	if action.Pick(wirejson.Into("type", &kind)); slices.ContainsFunc([]string{"search", "open_page", "find_in_page"}, kind.Is) {
		return json.RawMessage(action)
	}
	return json.RawMessage(`{"type":"search"}`)
}

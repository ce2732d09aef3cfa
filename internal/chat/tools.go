package chat

import (
	"cmp"
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

func (r *Request) readTools(v wirejson.Value) *field.Error {
	var list toolList
	f := field.Elements(v, prompt.MaxTools, "tools", list.readTool)
	r.Tools, r.Forms = list.tools, list.forms
	return f
}

// toolList is a list of tools with different names.
type toolList struct {
	tools []prompt.Tool
	names map[string]bool
	forms map[string]ToolForm // by the name of a custom tool: the form of its calls
}

// ToolForm is the form of a tool's calls for the client. 0 is the form for functions. The other forms are
// for custom tools, whose input is a text. For Codex and the model, custom tools are functions.
type ToolForm uint8

const (
	// customForm is a call of the type custom.
	customForm ToolForm = iota + 1
	// textForm is a call of a function, with the input text in place of the arguments. Clients
	// that declare custom tools as in the Responses API can read only calls of functions.
	textForm
)

// typedTool is the JSON of a tool, or of the choice of a tool. Its members are in an inner object, whose
// name is the type, or (as in the Responses API) in the same object as the type.
type typedTool struct {
	kind       wirejson.Value
	members    wirejson.Value
	objectName string // the name of the inner object; empty: there is none
}

func (t *typedTool) read(v wirejson.Value) *field.Error {
	var function, custom, name wirejson.Value
	f := field.Typed(&t.kind, v, wirejson.Into("function", &function), wirejson.Into("custom", &custom), wirejson.Into("name", &name))
	if t.members, t.objectName = function, "function"; t.kind.Is("custom") {
		t.members, t.objectName = custom, "custom"
	}
	if !t.members.Given() && name.Given() {
		t.members, t.objectName = v, ""
	}
	return f
}

func (l *toolList) readTool(at int, v wirejson.Value) *field.Error {
	var t typedTool
	f := t.read(v)
	switch {
	case f != nil:
		return f
	case t.kind.Is("function"):
		return l.readFunction(at, t.members).In(t.objectName)
	case t.kind.Is("custom") && t.objectName == "":
		return l.readCustom(v, textForm)
	case t.kind.Is("custom"):
		return l.readCustom(t.members, customForm).In(t.objectName)
	}
	return field.Unsupported("must be 'function' or 'custom': tools of other types are not supported here").In("type")
}

func (l *toolList) readFunction(_ int, v wirejson.Value) *field.Error {
	t, f := prompt.ReadFunction(v)
	return cmp.Or(f, l.add(t))
}

func (l *toolList) readCustom(v wirejson.Value, form ToolForm) *field.Error {
	t, f := prompt.ReadCustomTool(v, form == textForm)
	if l.forms == nil {
		l.forms = map[string]ToolForm{}
	}
	l.forms[t.Name] = form
	return cmp.Or(f, l.add(t))
}

func (l *toolList) add(t prompt.Tool) *field.Error {
	l.tools = append(l.tools, t)
	return prompt.AddName(&l.names, t.Name, true)
}

// readChoice reads a tool_choice that is an object. If it is a ChatCompletionAllowedTools, its
// members are in an inner object allowed_tools or, as in the Responses API, beside the type.
func readChoice(c *prompt.ToolChoice, v wirejson.Value) *field.Error {
	var kind, allowed, mode wirejson.Value
	v.Pick(wirejson.Into("type", &kind), wirejson.Into("allowed_tools", &allowed), wirejson.Into("mode", &mode))
	switch {
	case !kind.Is("allowed_tools"):
		return c.Require(readChosenTool(v, "function, custom or allowed_tools"))
	case !allowed.Given() && mode.Given():
		return c.ReadAllowed(v, readAllowedTool)
	}
	return c.ReadAllowed(allowed, readAllowedTool).In("allowed_tools")
}

func readAllowedTool(v wirejson.Value) (string, *field.Error) {
	return readChosenTool(v, "function or custom")
}

// readChosenTool returns the name in {"type":"function","function":{"name":…}}. The type may also be
// custom, and the name may be beside the type, as in the Responses API. types is for the error message.
func readChosenTool(v wirejson.Value, types string) (string, *field.Error) {
	var t typedTool
	if f := t.read(v); f != nil {
		return "", f
	}
	if !t.kind.Is("function") && !t.kind.Is("custom") {
		return "", field.Unsupported("must be %s", types).In("type")
	}
	name, f := readChosenName(t.members)
	return name, f.In(t.objectName)
}

func readChosenName(v wirejson.Value) (string, *field.Error) {
	var name wirejson.Value
	if f := cmp.Or(field.Object(v, wirejson.Into("name", &name)), field.NonEmpty(name).In("name")); f != nil {
		return "", f
	}
	return name.Text(), nil
}

// readFunctions reads functions (ChatCompletionFunctions), an older form that some clients need.
func (r *Request) readFunctions(v wirejson.Value) *field.Error {
	var list toolList
	f := field.Elements(v, prompt.MaxTools, "functions", list.readFunction)
	r.functions = list.tools
	return f
}

// readFunctionCall reads the member function_call, the older form of tool_choice. Its value is
// none, auto, or an object with the name of a function (ChatCompletionFunctionCallOption).
func (r *Request) readFunctionCall(v wirejson.Value) *field.Error {
	if v.Kind() == wirejson.KindString && !v.Is("auto") && !v.Is("none") {
		return field.Invalid("must be none, auto or an object")
	}
	return r.functionCall.Read(v, func(c *prompt.ToolChoice, v wirejson.Value) *field.Error {
		return c.Require(readChosenName(v))
	})
}

// useFunctions turns the older forms, r.functions and r.functionCall, into r.Tools and r.Choice. It refuses
// a request with older and newer forms, since an answer has either a function_call or tool_calls.
func (r *Request) useFunctions() *field.Error {
	switch {
	case len(r.functions) > 0 && len(r.Tools) > 0:
		return field.Invalid("cannot stand beside 'tools'; use 'tools' alone").In("functions")
	case len(r.functions) > 0 && !r.Choice.IsAuto():
		return field.Invalid("belongs to 'tools'; beside 'functions' use 'function_call'").In("tool_choice")
	case len(r.Tools) > 0:
		return field.Invalid("belongs to 'functions'; beside 'tools' use 'tool_choice'").In("function_call")
	}
	if name := r.functionCall.Unknown(r.functions); name != "" {
		return field.Invalid("there is no function %.128q in 'functions'", name).In("function_call")
	}
	if len(r.functions) == 0 {
		return r.CheckChoice(false).In("tool_choice")
	}
	r.Tools, r.Choice = r.functions, r.functionCall
	r.LegacyFunctions, r.SerialTools = true, true
	return nil
}

// readMessageFunctionCall reads the function_call of an assistant's message. A function_call has no id, so
// it gets an id made from the index of the message. toToolMessage gives the result the same id.
func readMessageFunctionCall(m *prompt.Message, v wirejson.Value, index int) *field.Error {
	if !v.Given() {
		return nil
	}
	if len(m.Calls) > 0 {
		return field.Invalid("cannot stand beside 'tool_calls'")
	}
	call := prompt.Call{ID: wirejson.Value(strconv.AppendQuote(nil, "function_call_"+strconv.Itoa(index))), Function: true}
	f := readNameAndArguments(&call, v, "arguments")
	m.Calls = []prompt.Call{call}
	return f
}

func hasFunctionCall(m *prompt.Message) bool { return len(m.Calls) == 1 && m.Calls[0].Function }

// toToolMessage turns m, a message of the role function, into a tool message with the id of its call. m has
// only the function's name. The call must be the function_call in the last of the earlier messages, with
// the same name.
func toToolMessage(m *prompt.Message, earlier []prompt.Message) *field.Error {
	var name string
	f := prompt.ReadCalledName(&name, m.CallID)
	if last := len(earlier) - 1; f == nil && last >= 0 && hasFunctionCall(&earlier[last]) && name == earlier[last].Calls[0].Name {
		m.Role, m.CallID = prompt.RoleTool, earlier[last].Calls[0].ID
		return nil
	}
	return field.Invalid("there is no function_call of %.64q in the message right before", m.CallID.Text())
}

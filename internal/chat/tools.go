package chat

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func (r *Request) readTools(v jsontext.Value) *field.Error {
	list, f := readToolList(v, "tools", (*toolList).readTool)
	r.Tools, r.forms = list.tools, list.forms
	return f
}

// Forms returns the forms of the calls of those tools that are more than functions, by
// their names.
func (r *Request) Forms() map[string]ToolForm { return r.forms }

// readToolList reads a list of tools or functions, each with read. what names them in
// errors.
func readToolList(v jsontext.Value, what string, read func(*toolList, jsontext.Value) *field.Error) (list toolList, _ *field.Error) {
	f := field.Elements(v, prompt.MaxTools, what, func(_ int, v jsontext.Value) *field.Error { return read(&list, v) })
	return list, f
}

// toolList is a list of tools with different names.
type toolList struct {
	tools []prompt.Tool
	names map[string]struct{}
	forms map[string]ToolForm // of those that are more than functions, by their names
}

// ToolForm is what the calls of a custom tool are to the client: Codex and the model
// know functions only.
type ToolForm uint8

const (
	// customForm makes them calls of the type custom.
	customForm ToolForm = iota + 1
	// textForm makes them calls of functions whose arguments are the text. Clients that
	// declare custom tools in the form of the Responses API read calls of functions only.
	textForm
)

// typedTool is a tool, or the choice of one. Its members are in an object of their own or,
// as in the Responses API, beside its type.
type typedTool struct {
	kind    jsontext.Value
	members jsontext.Value
	flat    bool // the members are beside the type
}

func (t *typedTool) read(v jsontext.Value) *field.Error {
	var function, custom, name jsontext.Value
	f := field.Typed(&t.kind, v, jsontext.Into("function", &function), jsontext.Into("custom", &custom), jsontext.Into("name", &name))
	if t.members = function; t.kind.Is("custom") {
		t.members = custom
	}
	t.flat = !t.members.Given() && name.Given()
	return f
}

// readTool adds a tool.
func (l *toolList) readTool(v jsontext.Value) *field.Error {
	var t typedTool
	f := t.read(v)
	switch {
	case f != nil:
		return f
	case t.kind.Is("function") && t.flat:
		return l.readFunction(v)
	case t.kind.Is("function"):
		return l.readFunction(t.members).In("function")
	case t.kind.Is("custom") && t.flat:
		return l.readCustom(v, textForm)
	case t.kind.Is("custom"):
		return l.readCustom(t.members, customForm).In("custom")
	}
	return field.Unsupported("must be 'function' or 'custom': tools of other types are not supported here").In("type")
}

// readFunction adds a FunctionObject.
func (l *toolList) readFunction(v jsontext.Value) *field.Error {
	t, f := prompt.ReadFunction(v)
	return cmp.Or(f, l.add(t))
}

// readCustom reads a custom tool as the next tool.
func (l *toolList) readCustom(v jsontext.Value, form ToolForm) *field.Error {
	t, f := prompt.ReadCustomTool(v, form == textForm)
	if l.forms == nil {
		l.forms = map[string]ToolForm{}
	}
	l.forms[t.Name] = form
	return cmp.Or(f, l.add(t))
}

// add adds a tool.
func (l *toolList) add(t prompt.Tool) *field.Error {
	if _, twice := l.names[t.Name]; twice {
		return field.Invalid("the name %q is used twice", t.Name).In("name")
	}
	if l.names == nil {
		l.names = map[string]struct{}{}
	}
	l.names[t.Name] = struct{}{}
	l.tools = append(l.tools, t)
	return nil
}

func (r *Request) readToolChoice(v jsontext.Value) *field.Error { return r.Choice.Read(v, readChoice) }

// readChoice reads a choice that is an object. The members of an allowed_tools
// (ChatCompletionAllowedTools) are in an object of their own or, as in the Responses API,
// beside its type.
func readChoice(c *prompt.ToolChoice, v jsontext.Value) *field.Error {
	var kind, allowed, mode jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("allowed_tools", &allowed), jsontext.Into("mode", &mode))
	switch {
	case !kind.Is("allowed_tools"):
		return c.Require(readChosenTool(v, "function, custom or allowed_tools"))
	case !allowed.Given() && mode.Given():
		return c.ReadAllowed(v, readAllowedTool)
	}
	return c.ReadAllowed(allowed, readAllowedTool).In("allowed_tools")
}

// readAllowedTool reads one of the tools of allowed_tools.
func readAllowedTool(v jsontext.Value) (string, *field.Error) {
	return readChosenTool(v, "function or custom")
}

// readChosenTool reads {"type":"function","function":{"name":…}}, the same of a custom
// tool, or, as in the Responses API, the name beside the type.
func readChosenTool(v jsontext.Value, types string) (string, *field.Error) {
	var t typedTool
	if f := t.read(v); f != nil {
		return "", f
	}
	if !t.kind.Is("function") && !t.kind.Is("custom") {
		return "", field.Unsupported("must be %s", types).In("type")
	}
	if t.flat {
		return readChosenName(v)
	}
	name, f := readChosenName(t.members)
	return name, f.In(t.kind.Text())
}

// readChosenName reads {"name":…}.
func readChosenName(v jsontext.Value) (string, *field.Error) {
	var name jsontext.Value
	if f := field.Object(v, jsontext.Into("name", &name)); f != nil {
		return "", f
	}
	if f := field.NonEmpty(name); f != nil {
		return "", f.In("name")
	}
	return name.Text(), nil
}

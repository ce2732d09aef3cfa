package chat

import (
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

// readTool reads a tool. Its members are in an object of their own or, as in the
// Responses API, beside its type.
func (l *toolList) readTool(v jsontext.Value) *field.Error {
	var kind, function, custom, flatName jsontext.Value
	if f := field.Object(v, jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("custom", &custom), jsontext.Into("name", &flatName)); f != nil {
		return f
	}
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return f.In("type")
	}
	switch {
	case kind.Is("function") && !function.Given() && flatName.Given():
		return l.readFunction(v)
	case kind.Is("function"):
		return l.readFunction(function).In("function")
	case kind.Is("custom") && !custom.Given() && flatName.Given():
		return l.readCustom(v, textForm)
	case kind.Is("custom"):
		return l.readCustom(custom, customForm).In("custom")
	}
	return field.Unsupported("must be 'function' or 'custom': tools of other types are not supported here").In("type")
}

// readFunction adds a FunctionObject.
func (l *toolList) readFunction(v jsontext.Value) *field.Error {
	t, f := prompt.ReadFunction(v)
	if f != nil {
		return f
	}
	return l.add(t)
}

// readCustom reads a custom tool as the next tool.
func (l *toolList) readCustom(v jsontext.Value, form ToolForm) *field.Error {
	t, f := prompt.ReadCustomTool(v, form == textForm)
	if f != nil {
		return f
	}
	if f := l.add(t); f != nil {
		return f
	}
	if l.forms == nil {
		l.forms = map[string]ToolForm{}
	}
	l.forms[t.Name] = form
	return nil
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

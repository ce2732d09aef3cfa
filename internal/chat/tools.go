package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func (r *Request) readTools(v jsontext.Value) (f *field.Error) {
	r.Tools, f = readToolList(v, "tools", (*toolList).readTool)
	return f
}

// readToolList reads a list of tools or functions, each with read. what names them in
// errors.
func readToolList(v jsontext.Value, what string, read func(*toolList, jsontext.Value) *field.Error) ([]prompt.Tool, *field.Error) {
	if !v.Given() {
		return nil, nil
	}
	if f := field.Expect(jsontext.KindArray, v); f != nil {
		return nil, f
	}
	var list toolList
	for i, v := range v.Elements() {
		if list.full() {
			return nil, field.Invalid("must hold at most %d %s", prompt.MaxTools, what)
		}
		if f := read(&list, v); f != nil {
			return nil, f.At(i)
		}
	}
	return list.tools, nil
}

// toolList is a list of tools with different names.
type toolList struct {
	tools []prompt.Tool
	names map[string]struct{}
}

// full reports whether the list may have no other tool.
func (l *toolList) full() bool { return len(l.tools) == prompt.MaxTools }

func (l *toolList) readTool(v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var kind, function, flatName jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("name", &flatName))
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return f.In("type")
	}
	if !kind.Is("function") {
		return field.Unsupported("must be 'function': tools of other types are not supported").In("type")
	}
	if !function.Given() && flatName.Given() {
		return (&field.Error{
			Problem: "is required; a tool with its name beside its type belongs to POST /v1/responses",
			Code:    apierror.CodeMissingParameter,
		}).In("function")
	}
	return l.readFunction(function).In("function")
}

// readFunction adds a FunctionObject.
func (l *toolList) readFunction(v jsontext.Value) *field.Error {
	t, f := prompt.ReadFunction(v)
	if f != nil {
		return f
	}
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

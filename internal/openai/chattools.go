package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

func (r *ChatRequest) readTools(v jsontext.Value) (f *fault) {
	r.tools, f = readToolList(v, "tools", (*toolList).readTool)
	return f
}

// readToolList reads a list of what, each with read.
func readToolList(v jsontext.Value, what string, read func(*toolList, jsontext.Value) *fault) ([]tool, *fault) {
	if !v.Given() {
		return nil, nil
	}
	if f := expect(jsontext.KindArray, v); f != nil {
		return nil, f
	}
	var list toolList
	for i, v := range v.Elements() {
		if list.full() {
			return nil, wrongValue("must hold at most %d %s", maxTools, what)
		}
		if f := read(&list, v); f != nil {
			return nil, f.at(i)
		}
	}
	return list.tools, nil
}

// toolList collects tools, each name once.
type toolList struct {
	tools []tool
	names map[string]struct{}
}

// full reports whether there is no room for another tool.
func (l *toolList) full() bool { return len(l.tools) == maxTools }

func (l *toolList) readTool(v jsontext.Value) *fault {
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var kind, function, flatName jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("name", &flatName))
	if f := expect(jsontext.KindString, kind); f != nil {
		return f.in("type")
	}
	if !kind.Is("function") {
		return unsupported("must be 'function': tools of other types are not supported").in("type")
	}
	if !function.Given() && flatName.Given() {
		return (&fault{
			problem: "is required; a tool with its name beside its type belongs to POST /v1/responses",
			code:    CodeMissingParameter,
		}).in("function")
	}
	return l.readFunction(function).in("function")
}

// readFunction reads a FunctionObject as the next tool.
func (l *toolList) readFunction(v jsontext.Value) *fault {
	t, f := readToolFunction(v)
	if f != nil {
		return f
	}
	if _, twice := l.names[t.name]; twice {
		return wrongValue("the name %q is used twice", t.name).in("name")
	}
	if l.names == nil {
		l.names = map[string]struct{}{}
	}
	l.names[t.name] = struct{}{}
	l.tools = append(l.tools, t)
	return nil
}

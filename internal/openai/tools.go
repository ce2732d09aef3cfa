package openai

import (
	"encoding/json"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"strings"
	"unicode/utf8"
)

// maxToolName is the length that Codex allows. OpenAI's own limit is 64, but
// there is no reason to refuse what works.
const maxToolName = 128

// maxTools is how many tools a request may declare. OpenAI documents 128; Codex
// was seen to offer 512.
const maxTools = 1024

// emptySchema is the schema of a tool that declares no parameters.
var emptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// tool is a function that the client offers (ChatCompletionTool).
type tool struct {
	name        string
	description string
	schema      json.RawMessage
}

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
			code:    codeMissing,
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

// readToolFunction reads a FunctionObject. Its strict is checked and without
// effect: Codex offers all tools without it.
func readToolFunction(v jsontext.Value) (t tool, _ *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return t, f
	}
	var toolName, description, parameters, strict jsontext.Value
	v.Pick(
		jsontext.Into("name", &toolName),
		jsontext.Into("description", &description),
		jsontext.Into("parameters", &parameters),
		jsontext.Into("strict", &strict),
	)
	var f *fault
	if t.name, f = readToolName(toolName); f != nil {
		return t, f.in("name")
	}
	if f := optional(jsontext.KindString, description); f != nil {
		return t, f.in("description")
	}
	if description.Given() {
		t.description = description.Text()
	}
	if f := optional(jsontext.KindBool, strict); f != nil {
		return t, f.in("strict")
	}
	t.schema = emptySchema
	if parameters.Given() {
		if f := expect(jsontext.KindObject, parameters); f != nil {
			return t, f.in("parameters")
		}
		t.schema = parameters.Compact()
	}
	return t, nil
}

// readToolName reads a name by the rule of OpenAI and Codex.
func readToolName(v jsontext.Value) (string, *fault) {
	if f := expectFilled(v); f != nil {
		return "", f
	}
	name := v.Text()
	if !isToolName(name) {
		return "", wrongValue("must consist of letters, digits, '_' and '-', at most %d of them", maxToolName)
	}
	return name, nil
}

// readCalledName reads the name of a tool that a model has called. In a textual
// call it writes what it likes, and the client may send that back: for Codex,
// which takes no such names, other characters become '_'.
func readCalledName(v jsontext.Value) (string, *fault) {
	if f := expectFilled(v); f != nil {
		return "", f
	}
	name := v.Text()
	if isToolName(name) {
		return name, nil
	}
	plain := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && isToolName(string(r)) {
			return r
		}
		return '_'
	}, name)
	return cutName(plain, ""), nil
}

func isToolName(s string) bool {
	for _, b := range []byte(s) {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') && b != '_' && b != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxToolName
}

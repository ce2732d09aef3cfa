package openai

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
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

package prompt

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// maxToolName is the length that Codex allows. OpenAI allows 64, but there is no reason
// to reject what works.
const maxToolName = 128

// MaxTools is how many tools a request may declare. OpenAI documents 128; Codex works
// with 512.
const MaxTools = 1024

// EmptySchema is the schema of a tool that declares no parameters.
var EmptySchema = json.RawMessage(`{"type":"object","properties":{}}`)

// Tool is a function that the client offers (ChatCompletionTool).
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// ReadFunction reads a FunctionObject. Its strict is checked and has no effect: Codex
// offers all tools without it.
func ReadFunction(v jsontext.Value) (t Tool, _ *field.Error) {
	var toolName, description, parameters, strict jsontext.Value
	if f := field.Object(v,
		jsontext.Into("name", &toolName),
		jsontext.Into("description", &description),
		jsontext.Into("parameters", &parameters),
		jsontext.Into("strict", &strict),
	); f != nil {
		return t, f
	}
	var f *field.Error
	if t.Name, f = ReadToolName(toolName); f != nil {
		return t, f.In("name")
	}
	if f := field.Text(&t.Description, description); f != nil {
		return t, f.In("description")
	}
	if f := field.Optional(jsontext.KindBool, strict); f != nil {
		return t, f.In("strict")
	}
	t.Schema = EmptySchema
	if parameters.Given() {
		if f := field.Expect(jsontext.KindObject, parameters); f != nil {
			return t, f.In("parameters")
		}
		t.Schema = parameters.Compact()
	}
	return t, nil
}

// ReadToolName reads the name of a tool, by the rule of OpenAI and Codex.
func ReadToolName(v jsontext.Value) (string, *field.Error) {
	if f := field.NonEmpty(v); f != nil {
		return "", f
	}
	name := v.Text()
	if !isToolName(name) {
		return "", field.Invalid("must consist of letters, digits, '_' and '-', at most %d of them", maxToolName)
	}
	return name, nil
}

// ReadCalledName reads the name of a tool that a model has called. In a textual call a
// model may write any name, which the client sends back. Codex accepts no such names,
// so other characters become '_'.
func ReadCalledName(v jsontext.Value) (string, *field.Error) {
	if f := field.NonEmpty(v); f != nil {
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
	return CutName(plain, ""), nil
}

func isToolName(s string) bool {
	for _, b := range []byte(s) {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') && b != '_' && b != '-' {
			return false
		}
	}
	return s != "" && len(s) <= maxToolName
}

package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func (r *Request) readToolChoice(v jsontext.Value) *field.Error {
	r.Choice = prompt.ToolChoice{}
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		return r.Choice.ReadMode(v.Text())
	case jsontext.KindObject:
		return readChoice(&r.Choice, v)
	}
	return field.WrongType("a string or an object", v)
}

func readChoice(c *prompt.ToolChoice, v jsontext.Value) *field.Error {
	var kind, function, allowed jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("allowed_tools", &allowed))
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return f.In("type")
	}
	switch kind.Text() {
	case "function":
		name, f := readChosenName(function)
		c.Required, c.Only = true, []string{name}
		return f.In("function")
	case "allowed_tools":
		return readAllowed(c, allowed).In("allowed_tools")
	}
	return field.Unsupported("must be function or allowed_tools").In("type")
}

// readChosenName reads {"name":…}.
func readChosenName(v jsontext.Value) (string, *field.Error) {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var chosen jsontext.Value
	v.Pick(jsontext.Into("name", &chosen))
	if f := field.NonEmpty(chosen); f != nil {
		return "", f.In("name")
	}
	return chosen.Text(), nil
}

// readAllowed reads an allowed_tools (ChatCompletionAllowedTools).
func readAllowed(c *prompt.ToolChoice, v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var mode, tools jsontext.Value
	v.Pick(jsontext.Into("mode", &mode), jsontext.Into("tools", &tools))
	return c.ReadAllowed(mode, tools, readAllowedTool)
}

// readAllowedTool reads {"type":"function","function":{"name":…}}.
func readAllowedTool(v jsontext.Value) (string, *field.Error) {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var kind, function jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("function", &function))
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return "", f.In("type")
	}
	if !kind.Is("function") {
		return "", field.Unsupported("must be 'function'").In("type")
	}
	name, f := readChosenName(function)
	return name, f.In("function")
}

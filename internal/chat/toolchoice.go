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
	var kind, allowed, mode jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("allowed_tools", &allowed), jsontext.Into("mode", &mode))
	switch {
	case kind.Is("allowed_tools") && !allowed.Given() && mode.Given():
		return readAllowed(c, v)
	case kind.Is("allowed_tools"):
		return readAllowed(c, allowed).In("allowed_tools")
	}
	name, f := readChosenTool(v, "function, custom or allowed_tools")
	c.Required, c.Only = true, []string{name}
	return f
}

// readChosenTool reads {"type":"function","function":{"name":…}}, the same of a custom
// tool, or, as in the Responses API, the name beside the type.
func readChosenTool(v jsontext.Value, types string) (string, *field.Error) {
	var kind, function, custom, flatName jsontext.Value
	if f := field.Object(v, jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("custom", &custom), jsontext.Into("name", &flatName)); f != nil {
		return "", f
	}
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return "", f.In("type")
	}
	chosen := function
	switch {
	case kind.Is("custom"):
		chosen = custom
	case !kind.Is("function"):
		return "", field.Unsupported("must be %s", types).In("type")
	}
	if !chosen.Given() && flatName.Given() {
		return readChosenName(v)
	}
	name, f := readChosenName(chosen)
	return name, f.In(kind.Text())
}

// readChosenName reads {"name":…}.
func readChosenName(v jsontext.Value) (string, *field.Error) {
	var chosen jsontext.Value
	if f := field.Object(v, jsontext.Into("name", &chosen)); f != nil {
		return "", f
	}
	if f := field.NonEmpty(chosen); f != nil {
		return "", f.In("name")
	}
	return chosen.Text(), nil
}

// readAllowed reads an allowed_tools (ChatCompletionAllowedTools).
func readAllowed(c *prompt.ToolChoice, v jsontext.Value) *field.Error {
	var mode, tools jsontext.Value
	if f := field.Object(v, jsontext.Into("mode", &mode), jsontext.Into("tools", &tools)); f != nil {
		return f
	}
	return c.ReadAllowed(mode, tools, readAllowedTool)
}

// readAllowedTool reads one of the tools of allowed_tools.
func readAllowedTool(v jsontext.Value) (string, *field.Error) {
	return readChosenTool(v, "function or custom")
}

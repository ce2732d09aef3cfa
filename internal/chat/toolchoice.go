package chat

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

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
	if t.kind != "function" && t.kind != "custom" {
		return "", field.Unsupported("must be %s", types).In("type")
	}
	if t.flat {
		return readChosenName(v)
	}
	name, f := readChosenName(t.members)
	return name, f.In(t.kind)
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

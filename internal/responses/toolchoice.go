package responses

import (
	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

func (r *Request) readToolChoice(v jsontext.Value) *field.Error {
	r.Choice, r.echo.ToolChoice = prompt.ToolChoice{}, nil
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		r.echo.ToolChoice = v
		return r.Choice.ReadMode(v.Text())
	case jsontext.KindObject:
		r.echo.ToolChoice = v
		return readChoice(&r.Choice, v)
	}
	return field.WrongType("a string or an object", v)
}

// readChoice reads a choice that is an object (ToolChoiceFunction, ToolChoiceCustom,
// ToolChoiceAllowed, ToolChoiceTypes for the web search).
func readChoice(c *prompt.ToolChoice, v jsontext.Value) *field.Error {
	var kind, mode, tools jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("mode", &mode), jsontext.Into("tools", &tools))
	if kind.Is("allowed_tools") {
		return c.ReadAllowed(mode, tools, readChosenTool)
	}
	if c.Search = kind.Kind() == jsontext.KindString && prompt.IsWebSearch(kind.Text()); c.Search {
		return nil
	}
	name, f := readChosenTool(v)
	c.Required, c.Only = true, []string{name}
	return f
}

// readChosenTool reads {"type":"function","name":…}, the same of a custom tool, or the
// type alone of a tool that the client runs.
func readChosenTool(v jsontext.Value) (string, *field.Error) {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var kind, chosen, namespace jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("name", &chosen), jsontext.Into("namespace", &namespace))
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return "", f.In("type")
	}
	switch name := kind.Text(); {
	case clientTools[name].call != "":
		return name, nil
	case name == "computer_use":
		return computerTool, nil
	case name != "function" && name != "custom":
		return "", field.Unsupported("must name a tool of the client's own: other tools do not run here").In("type")
	}
	if f := field.NonEmpty(chosen); f != nil {
		return "", f.In("name")
	}
	if f := field.Optional(jsontext.KindString, namespace); f != nil {
		return "", f.In("namespace")
	}
	if namespace.Given() {
		return joinName(namespace.Text(), chosen.Text()), nil
	}
	return chosen.Text(), nil
}

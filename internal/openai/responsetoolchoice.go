package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

func (r *ResponseRequest) readToolChoice(v jsontext.Value) *fault {
	r.choice, r.echo.toolChoice = toolChoice{}, nil
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		r.echo.toolChoice = v
		return r.choice.readMode(v.Text())
	case jsontext.KindObject:
		r.echo.toolChoice = v
		return readResponseChoice(&r.choice, v)
	}
	return wrongType("a string or an object", v)
}

// readResponseObject reads a choice that is an object (ToolChoiceFunction,
// ToolChoiceCustom, ToolChoiceAllowed).
func readResponseChoice(c *toolChoice, v jsontext.Value) *fault {
	var kind, mode, tools jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("mode", &mode), jsontext.Into("tools", &tools))
	if kind.Is("allowed_tools") {
		return c.readAllowedTools(mode, tools, readChosenTool)
	}
	name, f := readChosenTool(v)
	c.required, c.only = true, []string{name}
	return f
}

// readChosenTool reads {"type":"function","name":…}, also of a custom tool.
func readChosenTool(v jsontext.Value) (string, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var kind, chosen, namespace jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("name", &chosen), jsontext.Into("namespace", &namespace))
	if f := expect(jsontext.KindString, kind); f != nil {
		return "", f.in("type")
	}
	if !kind.Is("function") && !kind.Is("custom") {
		return "", unsupported("must name a function or a custom tool: other tools do not run here").in("type")
	}
	if f := expectFilled(chosen); f != nil {
		return "", f.in("name")
	}
	if f := optional(jsontext.KindString, namespace); f != nil {
		return "", f.in("namespace")
	}
	if namespace.Given() {
		return joinName(namespace.Text(), chosen.Text()), nil
	}
	return chosen.Text(), nil
}

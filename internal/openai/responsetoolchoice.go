package openai

func (r *ResponseRequest) readToolChoice(v value) *fault {
	r.choice, r.echo.toolChoice = toolChoice{}, nil
	switch v.kind() {
	case kindNull:
		return nil
	case kindString:
		r.echo.toolChoice = v
		return r.choice.readMode(v.text())
	case kindObject:
		r.echo.toolChoice = v
		return r.choice.readResponseObject(v)
	}
	return wrongType("a string or an object", v)
}

// readResponseObject reads a choice that is an object (ToolChoiceFunction,
// ToolChoiceCustom, ToolChoiceAllowed).
func (c *toolChoice) readResponseObject(v value) *fault {
	var kind, mode, tools value
	v.pick(member{"type", &kind}, member{"mode", &mode}, member{"tools", &tools})
	if kind.is("allowed_tools") {
		return c.readAllowedTools(mode, tools, readChosenTool)
	}
	name, f := readChosenTool(v)
	c.required, c.only = true, []string{name}
	return f
}

// readChosenTool reads {"type":"function","name":…}, also of a custom tool.
func readChosenTool(v value) (string, *fault) {
	if f := expect(kindObject, v); f != nil {
		return "", f
	}
	var kind, chosen, namespace value
	v.pick(member{"type", &kind}, member{"name", &chosen}, member{"namespace", &namespace})
	if f := expect(kindString, kind); f != nil {
		return "", f.in("type")
	}
	if !kind.is("function") && !kind.is("custom") {
		return "", unsupported("must name a function or a custom tool: other tools do not run here").in("type")
	}
	if f := expectFilled(chosen); f != nil {
		return "", f.in("name")
	}
	if f := optional(kindString, namespace); f != nil {
		return "", f.in("namespace")
	}
	if namespace.given() {
		return joinName(namespace.text(), chosen.text()), nil
	}
	return chosen.text(), nil
}

package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

func (r *ChatRequest) readToolChoice(v jsontext.Value) *fault {
	r.choice = toolChoice{}
	switch v.Kind() {
	case jsontext.KindNull:
		return nil
	case jsontext.KindString:
		return r.choice.readMode(v.Text())
	case jsontext.KindObject:
		return readChoice(&r.choice, v)
	}
	return wrongType("a string or an object", v)
}

func readChoice(c *toolChoice, v jsontext.Value) *fault {
	var kind, function, allowed jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("function", &function), jsontext.Into("allowed_tools", &allowed))
	if f := expect(jsontext.KindString, kind); f != nil {
		return f.in("type")
	}
	switch kind.Text() {
	case "function":
		name, f := readChosenName(function)
		c.required, c.only = true, []string{name}
		return f.in("function")
	case "allowed_tools":
		return readAllowed(c, allowed).in("allowed_tools")
	}
	return unsupported("must be function or allowed_tools").in("type")
}

// readChosenName reads {"name":…}.
func readChosenName(v jsontext.Value) (string, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var chosen jsontext.Value
	v.Pick(jsontext.Into("name", &chosen))
	if f := expectFilled(chosen); f != nil {
		return "", f.in("name")
	}
	return chosen.Text(), nil
}

// readAllowed reads a ChatCompletionAllowedTools.
func readAllowed(c *toolChoice, v jsontext.Value) *fault {
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var mode, tools jsontext.Value
	v.Pick(jsontext.Into("mode", &mode), jsontext.Into("tools", &tools))
	return c.readAllowedTools(mode, tools, readAllowedTool)
}

// readAllowedTool reads {"type":"function","function":{"name":…}}.
func readAllowedTool(v jsontext.Value) (string, *fault) {
	if f := expect(jsontext.KindObject, v); f != nil {
		return "", f
	}
	var kind, function jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("function", &function))
	if f := expect(jsontext.KindString, kind); f != nil {
		return "", f.in("type")
	}
	if !kind.Is("function") {
		return "", unsupported("must be 'function'").in("type")
	}
	name, f := readChosenName(function)
	return name, f.in("function")
}

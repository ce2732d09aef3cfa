package openai

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// toolChoice is the tool_choice of a request. The zero value is auto.
type toolChoice struct {
	none     bool
	required bool     // the model must call a tool
	only     []string // offer these tools only; nil: all
}

// isAuto reports whether the choice leaves everything to the model.
func (c *toolChoice) isAuto() bool { return !c.none && !c.required && c.only == nil }

func (c *toolChoice) readMode(mode string) *fault {
	switch mode {
	case "auto":
	case "none":
		c.none = true
	case "required":
		c.required = true
	default:
		return wrongValue("must be none, auto, required or an object")
	}
	return nil
}

// readAllowedTools reads the two members of allowed_tools, which either API has
// in a place of its own, and tools in its own form.
func (c *toolChoice) readAllowedTools(mode, tools jsontext.Value, read func(jsontext.Value) (string, *fault)) *fault {
	if f := expect(jsontext.KindString, mode); f != nil {
		return f.in("mode")
	}
	if !mode.Is("auto") && !mode.Is("required") {
		return wrongValue("must be auto or required").in("mode")
	}
	c.required = mode.Is("required")
	if f := expect(jsontext.KindArray, tools); f != nil {
		return f.in("tools")
	}
	c.only = []string{}
	for i, v := range tools.Elements() {
		name, f := read(v)
		if f != nil {
			return f.at(i).in("tools")
		}
		c.only = append(c.only, name)
	}
	if len(c.only) == 0 {
		return wrongValue("must hold at least one tool").in("tools")
	}
	return nil
}

// check compares the choice with the tools that there are.
func (c *toolChoice) check(tools []tool) *fault {
	if (c.required || c.only != nil) && len(tools) == 0 {
		return wrongValue("is only allowed when 'tools' are given")
	}
	if name := c.unknown(tools); name != "" {
		return wrongValue("there is no tool %.128q in 'tools'", name)
	}
	return nil
}

// unknown is the first chosen name that none of the tools has; empty if all are
// there.
func (c *toolChoice) unknown(tools []tool) string {
	if c.only == nil {
		return ""
	}
	declared := make(map[string]bool, len(tools))
	for _, t := range tools {
		declared[t.name] = true
	}
	for _, name := range c.only {
		if !declared[name] {
			return name
		}
	}
	return ""
}

// offered are those of the tools that the model may call.
func (c *toolChoice) offered(tools []tool) []tool {
	if c.none {
		return nil
	}
	if c.only == nil {
		return tools
	}
	allowed := make(map[string]bool, len(c.only))
	for _, name := range c.only {
		allowed[name] = true
	}
	var offered []tool
	for _, t := range tools {
		if allowed[t.name] {
			offered = append(offered, t)
		}
	}
	return offered
}

// instruction tells the model what Codex has no setting for; empty if nothing.
func (c *toolChoice) instruction(names codexNames) string {
	switch {
	case !c.required:
		return ""
	case len(c.only) == 1:
		return "In this reply you must call the tool " + names.of(c.only[0]) + ". Do not answer with text instead."
	}
	return "In this reply you must call at least one of your tools. Do not answer with text instead."
}

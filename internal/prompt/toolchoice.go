package prompt

import (
	"cmp"
	"math"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// ToolChoice is the tool_choice of a request. The zero value is auto.
type ToolChoice struct {
	None     bool     // the model may use no tools
	Required bool     // the model must call a tool
	Only     []string // the model may call only these tools; nil: all
	Search   bool     // the model must search the web, and may not call the client's tools
}

// IsAuto reports whether the model decides which tools it uses, if any.
func (c *ToolChoice) IsAuto() bool { return !c.None && !c.Required && c.Only == nil && !c.Search }

// Read reads a mode, or calls readObject for an object, whose form depends on the API.
func (c *ToolChoice) Read(v wirejson.Value, readObject func(*ToolChoice, wirejson.Value) *field.Error) *field.Error {
	*c = ToolChoice{None: v.Is("none"), Required: v.Is("required")}
	switch v.Kind() {
	case wirejson.KindNull:
		return nil
	case wirejson.KindString:
		if c.None || c.Required || v.Is("auto") {
			return nil
		}
		return field.Invalid("must be none, auto, required or an object")
	case wirejson.KindObject:
		return readObject(c, v)
	}
	return field.WrongType("a string or an object", v)
}

// Require makes the tool with this name the choice. It returns f, the error from reading the name.
func (c *ToolChoice) Require(name string, f *field.Error) *field.Error {
	c.Required, c.Only = true, []string{name}
	return f
}

// ReadAllowed reads allowed_tools. It calls read for the name of each tool, whose form depends on the API.
func (c *ToolChoice) ReadAllowed(v wirejson.Value, read func(wirejson.Value) (string, *field.Error)) *field.Error {
	var mode, tools wirejson.Value
	f := field.Object(v, wirejson.Into("mode", &mode), wirejson.Into("tools", &tools))
	f = cmp.Or(f, field.Expect(wirejson.KindString, mode).In("mode"))
	switch c.Required = mode.Is("required"); {
	case f != nil:
		return f
	case !c.Required && !mode.Is("auto"):
		return field.Invalid("must be auto or required").In("mode")
	case tools.Kind() == wirejson.KindArray && tools.IsEmptyArray():
		return field.Invalid("must hold at least one tool").In("tools")
	}
	f = field.Expect(wirejson.KindArray, tools)
	return cmp.Or(f, field.Elements(tools, math.MaxInt, "", func(_ int, v wirejson.Value) *field.Error {
		name, f := read(v)
		c.Only = append(c.Only, name)
		return f
	})).In("tools")
}

// CheckChoice returns an error if the choice does not fit the tools of the request. hasSearchTool is
// true if one of these tools is a web search.
func (c *Conversation) CheckChoice(hasSearchTool bool) *field.Error {
	choice := &c.Choice
	if choice.Search && !hasSearchTool {
		return field.Invalid("there is no web search in 'tools'")
	}
	if (choice.Required && !hasSearchTool || choice.Only != nil) && len(c.Tools) == 0 {
		return field.Invalid("is only allowed when 'tools' are given")
	}
	if name := choice.Unknown(c.Tools); name != "" {
		return field.Invalid("there is no tool %.128q in 'tools'", name)
	}
	return nil
}

// Unknown returns the first name in Only that no tool has. It returns "" if there is no such name.
func (c *ToolChoice) Unknown(tools []Tool) string {
	if c.Only == nil {
		return ""
	}
	declared := make(map[string]bool, len(tools))
	for _, t := range tools {
		declared[t.Name] = true
	}
	if i := slices.IndexFunc(c.Only, func(name string) bool { return !declared[name] }); i >= 0 {
		return c.Only[i]
	}
	return ""
}

func (c *ToolChoice) offeredTools(tools []Tool) []Tool {
	if c.None || c.Search {
		return nil
	}
	if c.Only == nil {
		return tools
	}
	allowed := make(map[string]bool, len(c.Only))
	for _, name := range c.Only {
		allowed[name] = true
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return !allowed[t.Name] })
}

// instruction returns a text that makes the model follow the choice, or "" if no tool is required.
func (c *ToolChoice) instruction(names ToolNames) string {
	switch {
	case c.Search:
		return "In this reply you must search the web before you answer."
	case !c.Required:
		return ""
	case len(c.Only) == 1:
		return "In this reply you must call the tool " + names.Codex(c.Only[0]) + ". Do not answer with text instead."
	}
	return "In this reply you must call at least one of your tools. Do not answer with text instead."
}

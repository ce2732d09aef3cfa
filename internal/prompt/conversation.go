package prompt

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Conversation is what a request asks of the model. Both APIs are read into this shape,
// so that there is one way from it to Codex ([Conversation.Plan]).
type Conversation struct {
	Model    string
	Messages []Message
	Elements int // of the messages, see [MaxItems]
	Tools    []Tool
	Choice   ToolChoice
	Search   *WebSearch // nil: the model may not search the web
	Format   Format
	Effort   string
	Ignored  []string // parameters without a counterpart in Codex

	Verbosity   string // empty: the model's own
	tier        string // service_tier; empty: none
	EffortField string // where the request has Effort; empty: reasoning_effort
	MaxTokens   int    // that the answer may have; 0: no limit
	SerialTools bool   // parallel_tool_calls is false
	Stream      bool
}

// InstructionsContain reports whether s occurs in a system or developer message, or in
// an assistant message at the beginning of the conversation, where some clients put
// their prompt.
func (c *Conversation) InstructionsContain(s string) bool {
	for i, m := range c.Messages {
		if !m.Role.instructs() && (i > 0 || m.Role != RoleAssistant) {
			continue
		}
		for p := range m.Parts() {
			if p.Kind == PartText && strings.Contains(p.Text.Text(), s) {
				return true
			}
		}
	}
	return false
}

// ModelID returns the client's name of the model.
func (c *Conversation) ModelID() string { return c.Model }

// DeclaresTools reports whether the request declares tools, whatever its tool_choice.
func (c *Conversation) DeclaresTools() bool { return len(c.Tools) > 0 }

// Skip checks a field for which Codex has no setting: its value may be null or of one
// of the kinds. If a value other than neutral would change the answer, name is added to
// Ignored; an empty name never is.
func (c *Conversation) Skip(v jsontext.Value, name, neutral string, kinds []jsontext.Kind) *field.Error {
	if !v.Given() {
		return nil
	}
	if !slices.Contains(kinds, v.Kind()) {
		return field.WrongType(kinds[0], v)
	}
	if name != "" && !v.Equals(neutral) {
		c.Ignore(name)
	}
	return nil
}

// Ignore adds a parameter to Ignored.
func (c *Conversation) Ignore(name string) {
	if !slices.Contains(c.Ignored, name) {
		c.Ignored = append(c.Ignored, name)
	}
}

package prompt

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Conversation is what a request asks of the model, whatever its wire: chat
// completions and Responses are read into the same shape, so that there is one
// way from it to the app-server's terms ([Conversation.Plan]).
type Conversation struct {
	Model    string
	Messages []Message
	Elements int // of the messages, see [MaxItems]
	Tools    []Tool
	Choice   ToolChoice
	Format   Format
	Effort   string
	Ignored  []string // parameters without a counterpart in Codex

	Verbosity   string // empty: the model's own
	MaxTokens   int    // that the answer may have; 0: no limit
	SerialTools bool   // parallel_tool_calls is false
	Stream      bool
}

// InstructionsContain reports whether s occurs in a system or developer message
// or in an assistant message that opens the conversation, which is where some
// clients put their prompt.
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

// DeclaresTools reports whether the request brings tools of its own, whatever
// its tool_choice makes of them.
func (c *Conversation) DeclaresTools() bool { return len(c.Tools) > 0 }

// Skip reads a field without a counterpart in Codex.
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

// Ignore notes that a parameter changes nothing.
func (c *Conversation) Ignore(name string) {
	if !slices.Contains(c.Ignored, name) {
		c.Ignored = append(c.Ignored, name)
	}
}

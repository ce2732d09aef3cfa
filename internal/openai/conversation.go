package openai

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// conversation is what a request asks of the model, whatever its wire: chat
// completions and Responses are read into the same shape, so that there is one
// way from it to the app-server's terms ([conversation.plan]).
type conversation struct {
	model    string
	messages []message
	elements int // of the messages, see [maxItems]
	tools    []tool
	choice   toolChoice
	format   responseFormat
	effort   string
	ignored  []string // parameters without a counterpart in Codex

	verbosity   string // empty: the model's own
	maxTokens   int    // that the answer may have; 0: no limit
	serialTools bool   // parallel_tool_calls is false
	stream      bool
}

// InstructionsContain reports whether s occurs in a system or developer message
// or in an assistant message that opens the conversation, which is where some
// clients put their prompt.
func (c *conversation) InstructionsContain(s string) bool {
	for i, m := range c.messages {
		if !m.role.instructs() && (i > 0 || m.role != roleAssistant) {
			continue
		}
		for p := range m.parts() {
			if p.kind == partText && strings.Contains(p.text.Text(), s) {
				return true
			}
		}
	}
	return false
}

// DeclaresTools reports whether the request brings tools of its own, whatever
// its tool_choice makes of them.
func (c *conversation) DeclaresTools() bool { return len(c.tools) > 0 }

// skip reads a field without a counterpart in Codex, see [unused].
func (c *conversation) skip(v jsontext.Value, name, neutral string, kinds []jsontext.Kind) *fault {
	if !v.Given() {
		return nil
	}
	if !slices.Contains(kinds, v.Kind()) {
		return wrongType(kinds[0], v)
	}
	if name != "" && !v.Equals(neutral) {
		c.ignore(name)
	}
	return nil
}

// ignore notes that a parameter changes nothing.
func (c *conversation) ignore(name string) {
	if !slices.Contains(c.ignored, name) {
		c.ignored = append(c.ignored, name)
	}
}

package prompt

import (
	"encoding/json"
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Placement is where the instructions of a conversation go. The zero Placement is that
// of a [Plan]: they replace Codex's own prompt.
type Placement struct {
	// Append keeps Codex's own prompt. The instructions follow it.
	Append bool
	// Once leaves the base prompt empty, because it would reach the model twice. Its
	// text becomes the first developer message.
	Once bool
	// Own is Codex's own prompt, for Append and Once together. If it is empty, Codex
	// sends its prompt in its own way.
	Own string
}

// Placed returns the parameters of thread/start and the history with the instructions
// in their place. The model reads the same messages with and without Once, except that
// without Append all instructions are one message.
func (p *Plan) Placed(where Placement) (codexrpc.ThreadStartParams, []json.RawMessage) {
	thread, history := p.Thread, p.History
	if !where.Append && !where.Once {
		return thread, history
	}
	all := *thread.BaseInstructions
	if thread.DeveloperInstructions != "" {
		all += "\n\n" + thread.DeveloperInstructions
	}
	switch {
	case !where.Append:
		thread.BaseInstructions, thread.DeveloperInstructions = new(string), all
	case !where.Once || where.Own == "":
		thread.BaseInstructions, thread.DeveloperInstructions = nil, all
	default:
		thread.BaseInstructions, thread.DeveloperInstructions = new(string), where.Own
		history = slices.Insert(slices.Clone(history), 0, developerItem(all))
	}
	return thread, history
}

// developerItem returns a developer message as an item.
func developerItem(text string) json.RawMessage {
	m := Message{Text: jsontext.Value(jsontext.AppendString(nil, text))}
	return m.appendMessage(nil, string(RoleDeveloper), "input_text")
}

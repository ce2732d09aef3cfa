package scriptedmodel

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// UserText returns the text of the user's last message, or "" if there is none. It skips messages
// of role user that Codex adds, such as the note about an interrupted turn.
func (r Request) UserText() string {
	if i := r.lastUser(); i >= 0 {
		return r.Input[i].Content.String()
	}
	return ""
}

// Said returns the texts of the messages of a role, without those that Codex adds.
func (r Request) Said(role string) (texts []string) {
	for _, it := range r.Input {
		if text := it.Content.String(); it.Type == "message" && it.Role == role && (role != "user" || !byCodex(text)) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Picture returns the URL of the last picture in the user's last message, or "".
func (r Request) Picture() string {
	if i := r.lastUser(); i >= 0 {
		for _, part := range slices.Backward(r.Input[i].Content) {
			if part.ImageURL != "" {
				return part.ImageURL
			}
		}
	}
	return ""
}

// lastUser returns the index of the user's last message, or -1.
func (r Request) lastUser() int {
	for i := len(r.Input) - 1; i >= 0; i-- {
		it := r.Input[i]
		if it.Type == "message" && it.Role == "user" && !byCodex(it.Content.String()) {
			return i
		}
	}
	return -1
}

// codexSummary begins the message with Codex's own summary of what was said before, gatewaySummary that with
// the gateway's.
const codexSummary = "Another language model started to solve this problem"

var gatewaySummary = gjson.GetBytes(prompt.NewSummary("").Item, "content.0.text").Str

// byCodex reports whether Codex, or the gateway, has added a message of role user with this text.
func byCodex(text string) bool {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, codexSummary) || strings.HasPrefix(text, strings.TrimSpace(gatewaySummary)) {
		return true
	}
	for _, tag := range []string{"environment_context", "turn_aborted", "user_instructions"} {
		if strings.HasPrefix(text, "<"+tag+">") && strings.HasSuffix(text, "</"+tag+">") {
			return true
		}
	}
	return false
}

// ToolResults returns the function_call_output items after the user's last message, or nil if the
// history ends otherwise. Behind it Codex may repeat the effort, if the model's can change.
func (r Request) ToolResults() []Item {
	input := r.Input
	if n := len(input); n > 0 && input[n-1].Type == "configuration_update" {
		input = input[:n-1]
	}
	if n := len(input); n == 0 || input[n-1].Type != "function_call_output" {
		return nil
	}
	var results []Item
	for _, it := range input[r.lastUser()+1:] {
		if it.Type == "function_call_output" {
			results = append(results, it)
		}
	}
	return results
}

// ownPrompts are the beginnings of Codex's own prompts, which have at least ownPromptBytes.
var ownPrompts = []string{"You are Codex, ", "You are a coding agent running in the Codex CLI, "}

const ownPromptBytes = 10_000

// LeadsWithOwnPrompt reports whether the first instructions are Codex's own for a model.
func (r Request) LeadsWithOwnPrompt() bool {
	first := r.Instructions
	for _, it := range r.Input {
		if first != "" {
			break
		}
		if it.Type == "message" && it.Role == "developer" {
			first = it.Content.String()
		}
	}
	return len(first) >= ownPromptBytes && slices.ContainsFunc(ownPrompts, func(own string) bool { return strings.HasPrefix(first, own) })
}

// IsCompaction reports whether Codex asks for a summary to replace a history that
// is too long. The client has not asked for it and must not get the answer.
func (r Request) IsCompaction() bool {
	var turn struct {
		Kind string `json:"request_kind"`
	}
	// Without metadata the prompt decides.
	err := json.Unmarshal([]byte(r.Metadata["x-codex-turn-metadata"]), &turn)
	if err == nil && turn.Kind != "" {
		return turn.Kind == "compaction"
	}
	return strings.Contains(r.UserText(), "CONTEXT CHECKPOINT COMPACTION")
}

// Tool returns the declared tool with this name.
func (r Request) Tool(name string) (Tool, bool) {
	for _, t := range r.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// ClientTools returns the functions in members and input items, but the one that Codex always adds.
func (r Request) ClientTools() []Tool {
	tools := functions(r.Tools)
	for _, it := range r.Input {
		tools = append(tools, functions(it.Tools)...)
	}
	return tools
}

// functions returns the functions among tools and in namespaces.
func functions(tools []Tool) (found []Tool) {
	for _, t := range tools {
		if t.Type == "function" && t.Name != "request_user_input" {
			found = append(found, t)
		}
		found = append(found, functions(t.Tools)...)
	}
	return found
}

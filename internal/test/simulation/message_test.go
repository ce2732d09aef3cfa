package simulation

import (
	"encoding/json"
	"math/rand/v2"
	"slices"

	"github.com/caddy-codex/caddy-codex/internal/test/apiclient"
	"github.com/caddy-codex/caddy-codex/internal/test/messagecheck"
)

// message is a message of a conversation, whatever API it is sent by.
type message struct {
	role   string // user, assistant or tool
	text   string // empty: there is none
	callID string // of the call whose result this is
	calls  []apiclient.Call
	answer *messagecheck.Message // that this was in Anthropic's API; nil: it was none, or is changed
}

// withoutAnswers returns messages as those have them who did not get the answers.
func withoutAnswers(messages []message) []message {
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].answer = nil
	}
	return messages
}

// openAIMessages returns messages as chat completions, which Responses without calls take, too.
func openAIMessages(messages []message) (all []any) {
	for _, m := range messages {
		one := map[string]any{"role": m.role, "content": m.text}
		if m.role == "assistant" && m.text == "" {
			one["content"] = nil
		}
		if m.callID != "" {
			one["tool_call_id"] = m.callID
		}
		var calls []any
		for _, call := range m.calls {
			calls = append(calls, map[string]any{"id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": call.Arguments}})
		}
		if calls != nil {
			one["tool_calls"] = calls
		}
		all = append(all, one)
	}
	return all
}

// anthropicMessages returns messages in Anthropic's form. Texts are strings or blocks, and the
// text behind results is in their message or in one of its own, as clients have it.
func anthropicMessages(messages []message, random *rand.Rand) (all []any) {
	var blocks []any // of the user's message under way
	flush := func() {
		if blocks != nil {
			all = append(all, map[string]any{"role": "user", "content": blocks})
			blocks = nil
		}
	}
	for _, m := range messages {
		if m.role == "assistant" || random.IntN(4) == 0 {
			flush()
		}
		switch text := textBlock(m.text, random); {
		case m.role == "assistant":
			all = append(all, m.anthropic(random))
		case m.role == "tool":
			result := map[string]any{"type": "tool_result", "tool_use_id": m.callID, "content": m.text}
			if random.IntN(2) == 0 {
				result["content"] = []any{text}
			}
			blocks = append(blocks, result)
		case blocks == nil && random.IntN(2) == 0:
			all = append(all, map[string]any{"role": "user", "content": m.text})
		default:
			blocks = append(blocks, text)
		}
	}
	flush()
	return all
}

func (m *message) anthropic(random *rand.Rand) map[string]any {
	if m.answer != nil {
		return m.answer.Back()
	}
	var blocks []any
	if m.text != "" {
		blocks = append(blocks, textBlock(m.text, random))
	}
	for _, call := range m.calls {
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": call.ID, "name": call.Name, "input": json.RawMessage(call.Arguments)})
	}
	return map[string]any{"role": "assistant", "content": blocks}
}

// textBlock returns a text as a block, which may end what is to be cached.
func textBlock(text string, random *rand.Rand) map[string]any {
	block := map[string]any{"type": "text", "text": text}
	if random.IntN(3) == 0 {
		block["cache_control"] = map[string]any{"type": "ephemeral"}
	}
	return block
}

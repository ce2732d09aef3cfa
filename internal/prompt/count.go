package prompt

import "github.com/caddy-codex/caddy-codex/internal/tokens"

// messageTokens is about what the frame of a message or of a call costs, in tokens.
const messageTokens = 4

// CountTokens estimates the tokens of the conversation for the model: those of its texts,
// calls and tools in o200k_base, and some for the frame of each. Images count as nothing.
func (c *Conversation) CountTokens() int {
	count, frames := tokens.NewLimit(0), 0
	for i := range c.Messages {
		m := &c.Messages[i]
		frames += 1 + len(m.Calls)
		for p := range m.Parts() {
			if p.Kind == PartText {
				count.Whole(p.Text.Text())
			}
		}
		for _, call := range m.Calls {
			count.Whole(call.Name)
			count.Whole(call.Arguments.Text())
		}
		count.Whole(string(m.Item))
	}
	for _, t := range c.Choice.offered(c.Tools) {
		frames++
		count.Whole(t.Name)
		count.Whole(t.Description)
		count.Whole(string(t.Schema))
	}
	count.Whole(string(c.Format.schema))
	return count.Count() + frames*messageTokens
}

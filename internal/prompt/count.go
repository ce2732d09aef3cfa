package prompt

import (
	"math"

	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

const (
	// messageTokens is about what the frame of a message or of a call costs, in tokens.
	messageTokens = 4
	// maxExact is how many bytes [Conversation.EstimateTokens] counts exactly. A further
	// token has about four bytes.
	maxExact      = 16 << 10
	bytesPerToken = 4
)

// CountTokens estimates the tokens of the conversation for the model: those of its texts,
// calls and tools in o200k_base, and some for the frame of each. Images count as nothing.
func (c *Conversation) CountTokens() int { return c.count(math.MaxInt) }

// EstimateTokens is a CountTokens that takes a few milliseconds for any conversation.
func (c *Conversation) EstimateTokens() int { return c.count(maxExact) }

// count counts the tokens of the conversation, those of the first bytes exactly.
func (c *Conversation) count(exact int) int {
	n := counter{limit: tokens.NewLimit(0), exact: exact}
	frames := 0
	for i := range c.Messages {
		m := &c.Messages[i]
		frames += 1 + len(m.Calls)
		for p := range m.Parts() {
			if p.Kind == PartText {
				n.add(p.Text.Text())
			}
		}
		for _, call := range m.Calls {
			n.add(call.Name)
			n.add(call.Arguments.Text())
		}
		n.add(string(m.Item))
	}
	for _, t := range c.Choice.offered(c.Tools) {
		frames++
		n.add(t.Name)
		n.add(t.Description)
		n.add(string(t.Schema))
	}
	n.add(string(c.Format.schema))
	return n.limit.Count() + (n.more+bytesPerToken-1)/bytesPerToken + frames*messageTokens
}

// counter counts the tokens of texts.
type counter struct {
	limit *tokens.Limit
	exact int // bytes that are still counted exactly
	more  int // bytes after these
}

func (c *counter) add(text string) {
	n := min(len(text), c.exact)
	c.limit.Whole(text[:n])
	c.exact -= n
	c.more += len(text) - n
}

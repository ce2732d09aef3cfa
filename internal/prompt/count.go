package prompt

import (
	"math"

	"github.com/caddy-codex/caddy-codex/internal/tokens"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	messageTokens    = 4        // an estimate of the tokens that surround each message, call or tool
	maxEstimateBytes = 16 << 10 // how many bytes [Conversation.EstimateTokens] splits into tokens
	maxSampleBytes   = 4 << 10  // how many bytes [Conversation.SampleTokens] splits into tokens
	bytesPerToken    = 4        // an estimate for the bytes that are not split into tokens
)

// CountTokens estimates the tokens of the conversation for the model. It counts the texts, calls
// and tools with the encoding o200k_base, and adds [messageTokens] for each message, call and tool.
// It does not count images. Counting takes about 0.7 seconds for a MiB. CountTokens calls pause
// every 64 KiB; an error of pause ends the count.
func (c *Conversation) CountTokens(pause func() error) (int, error) {
	n, err := c.count(math.MaxInt, pause)
	return n.tokens + n.frames*messageTokens, err
}

// EstimateTokens is like [Conversation.CountTokens], but takes only a few milliseconds: it counts
// only the tokens of the first 16 KiB. It counts the further bytes as one token for every
// [bytesPerToken] bytes.
func (c *Conversation) EstimateTokens() int {
	n, _ := c.count(maxEstimateBytes, nil) // without a pause it cannot fail
	return n.tokens + (n.furtherBytes+bytesPerToken-1)/bytesPerToken + n.frames*messageTokens
}

// SampleTokens is like [Conversation.CountTokens], but takes only a millisecond or two: it counts
// only the tokens of the first 4 KiB. It assumes that the further bytes have as many tokens for
// each byte as the first 4 KiB.
func (c *Conversation) SampleTokens() int {
	n, _ := c.count(maxSampleBytes, nil) // without a pause it cannot fail
	furtherTokens := n.furtherBytes / bytesPerToken
	if n.exactBytes > 0 {
		furtherTokens = int(float64(n.furtherBytes) * float64(n.tokens) / float64(n.exactBytes))
	}
	return n.tokens + furtherTokens + n.frames*messageTokens
}

// GuessTokens is like [Conversation.CountTokens], but takes almost no time: it only divides the
// number of bytes by [bytesPerToken]. The bytes of JSON escapes count, too.
func (c *Conversation) GuessTokens() int {
	bytes, frames := 0, 0
	c.forEachText(func(v wirejson.Value) { bytes += len(v) }, func(text string) { bytes += len(text) }, &frames)
	return bytes/bytesPerToken + frames*messageTokens
}

// countResult is the result of a count.
type countResult struct {
	tokens       int // how many tokens the first exactBytes bytes have
	exactBytes   int // how many bytes were split into tokens
	furtherBytes int // how many bytes follow; these were not split
	frames       int // how many messages, calls and tools there are
}

// count splits the first maxExactBytes bytes of the conversation's texts into tokens, and counts
// these tokens. Of the further text, it counts the bytes instead of the tokens.
func (c *Conversation) count(maxExactBytes int, pause func() error) (result countResult, err error) {
	counter := tokens.NewCounter()
	add := func(text string) {
		n := min(len(text), maxExactBytes-result.exactBytes)
		if err == nil {
			err = counter.Add(text[:n], pause)
		}
		result.exactBytes, result.furtherBytes = result.exactBytes+n, result.furtherBytes+len(text)-n
	}
	c.forEachText(func(v wirejson.Value) {
		if result.exactBytes == maxExactBytes {
			result.furtherBytes += len(v)
			return
		}
		add(v.Text())
	}, add, &result.frames)
	result.tokens = counter.Count()
	return result, err
}

// forEachText passes each text for the model to one of two functions: to quoted if the text is a
// JSON string, otherwise to plain. It adds the number of messages, calls and tools to frames.
func (c *Conversation) forEachText(quoted func(wirejson.Value), plain func(string), frames *int) {
	for i := range c.Messages {
		m := &c.Messages[i]
		*frames += 1 + len(m.Calls)
		for p := range m.Parts() {
			if p.Text != nil {
				quoted(p.Text)
			}
		}
		for _, call := range m.Calls {
			plain(call.Name)
			quoted(call.Arguments)
		}
		plain(string(m.Item))
	}
	for _, t := range c.Choice.offeredTools(c.Tools) {
		*frames++
		plain(t.Name)
		plain(t.Description)
		plain(string(t.Schema))
	}
	plain(string(c.Format.schema))
}

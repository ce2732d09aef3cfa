package prompt

import (
	"bytes"

	"github.com/caddy-codex/caddy-codex/internal/tokens"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

const (
	messageTokens = 4 // an estimate of the tokens that surround each message, call or tool
	// BytesPerToken is an estimate for a conversation without a sample.
	BytesPerToken     = 4
	itemBytesPerToken = 5 // an estimate for items such as reasoning, which are encrypted and in base64

	countedBetweenPauses = 64 << 10 // bytes, whose count takes some 40 ms
)

// SampleBytes is a good sample for [Conversation.EstimateTokens]: it takes a millisecond or two.
const SampleBytes = 4 << 10

// CountTokens estimates the tokens of the conversation: its texts, calls and tools in the encoding
// o200k_base, the items by their length, and [messageTokens] for each message, call and tool, but no images.
// A MiB takes some 0.7 seconds. CountTokens calls pause every 64 KiB; an error of pause ends the count.
func (c *Conversation) CountTokens(pause func() error) (n int, err error) {
	sincePause, others := 0, 0
	add := func(text string) {
		for err == nil && text != "" {
			part := tokens.FirstPart(text)
			n += tokens.Count(part)
			text = text[len(part):]
			if sincePause += len(part); sincePause >= countedBetweenPauses {
				sincePause, err = 0, pause()
			}
		}
	}
	c.forEachText(func(v wirejson.Value) { add(v.Text()) }, add, &others)
	return n + others, err
}

// EstimateTokens estimates what [Conversation.CountTokens] returns: it counts the tokens of the first
// sample bytes, and assumes the same ratio for all other bytes. If sample is 0, it divides the bytes by
// [BytesPerToken], which takes almost no time. Beyond the sample, the bytes of JSON escapes count, too.
func (c *Conversation) EstimateTokens(sample int) int {
	sampled, further, n, others := 0, 0, 0, 0 // sampled and further are bytes
	add := func(text string) {
		part := text[:min(len(text), sample-sampled)]
		n += tokens.Count(part)
		sampled, further = sampled+len(part), further+len(text)-len(part)
	}
	c.forEachText(func(v wirejson.Value) {
		if sampled == sample {
			further += len(v)
		} else {
			add(v.Text())
		}
	}, add, &others)
	if sampled == 0 {
		return further/BytesPerToken + others
	}
	return n + int(float64(further)*float64(n)/float64(sampled)) + others
}

// forEachText passes each text for the model to one of two functions: to quoted if the text is a
// JSON string, otherwise to plain. It adds to others the tokens of items, and those around messages, calls
// and tools.
func (c *Conversation) forEachText(quoted func(wirejson.Value), plain func(string), others *int) {
	for i := range c.Messages {
		m := &c.Messages[i]
		*others += messageTokens * (1 + len(m.Calls))
		if bytes.HasPrefix(m.Item, []byte(`{"type":"message"`)) { // a summary
			plain(string(m.Item))
		} else if m.Text == nil { // the text of a sealed summary may be known
			*others += len(m.Item) / itemBytesPerToken
		}
		for p := range m.Parts() {
			if p.Text != nil {
				quoted(p.Text)
			}
		}
		for _, call := range m.Calls {
			plain(call.Name)
			quoted(call.Arguments)
		}
	}
	for _, t := range c.Choice.offeredTools(c.Tools) {
		*others += messageTokens
		plain(t.Name)
		plain(t.Description)
		plain(string(t.Schema))
	}
	plain(string(c.Format.schema))
}

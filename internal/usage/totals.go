package usage

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Totals are the sums of the counts of turns.
type Totals struct {
	Requests int64  `json:"requests"`
	Turns    int64  `json:"turns"`
	Errors   int64  `json:"errors"` // requests with a status of 400 or above
	Tokens   Tokens `json:"usage"`
	Pictures int64  `json:"pictures,omitzero"`
	// Refusals counts the requests refused before their turns, by the label of the error's code.
	Refusals map[string]int64 `json:"refusals,omitempty"`
	// Price is what the provider charges, as far as it reports that.
	Price turn.Price `json:"price,omitzero"`
}

// totalsOf returns a turn's totals. Of several choices, only the first counts as a request.
func totalsOf(r *Record) Totals {
	t := Totals{Tokens: Tokens(r.Usage), Price: r.Price, Pictures: int64(r.Tools.Pictures)}
	if r.Mode != "" {
		t.Turns = 1
	} else {
		t.Refusals = map[string]int64{r.Code.Label(): 1}
	}
	if r.Choice == 0 {
		t.Requests = 1
		if r.Status >= 400 {
			t.Errors = 1
		}
	}
	return t
}

func (t *Totals) add(u Totals) {
	t.Requests += u.Requests
	t.Turns += u.Turns
	t.Errors += u.Errors
	t.Tokens = Tokens(codexrpc.Usage(t.Tokens).Add(codexrpc.Usage(u.Tokens)))
	t.Price = t.Price.Add(u.Price)
	t.Pictures += u.Pictures
	addCounts(&t.Refusals, u.Refusals)
}

// addCounts adds counts to those in to, which may be nil.
func addCounts(to *map[string]int64, counts map[string]int64) {
	for name, n := range counts {
		if *to == nil {
			*to = make(map[string]int64)
		}
		(*to)[name] += n
	}
}

// Tokens are counts as in OpenAI's CompletionUsage, with [codexrpc.Usage]'s fields.
type Tokens struct {
	TotalTokens           int64 `json:"total_tokens"`
	InputTokens           int64 `json:"prompt_tokens"`
	CachedInputTokens     int64 `json:"cached_tokens"`
	CacheWriteInputTokens int64 `json:"cache_write_tokens"`
	OutputTokens          int64 `json:"completion_tokens"`
	ReasoningOutputTokens int64 `json:"reasoning_tokens"`
}

// ToolCalls are counts of tool calls. Total counts the calls that clients got.
type ToolCalls struct {
	Total      int64 `json:"total"`
	Truncated  int64 `json:"truncated"`  // turns with more calls than allowed
	Duplicates int64 `json:"duplicates"` // calls dropped as repeats
	Unwritable int64 `json:"unwritable"` // calls that could not be written as a block
}

func (c *ToolCalls) add(d ToolCalls) {
	c.Total += d.Total
	c.Truncated += d.Truncated
	c.Duplicates += d.Duplicates
	c.Unwritable += d.Unwritable
}

// ToolBuffers counts <use_tool> blocks in the model's text.
type ToolBuffers struct {
	Started  int64            `json:"tool_buffer_started"`
	Flushed  int64            `json:"tool_buffer_flushed"`
	Aborted  int64            `json:"tool_buffer_aborted"`
	ByReason map[string]int64 `json:"aborted_by_reason,omitempty"`
}

func (b *ToolBuffers) add(c ToolBuffers) {
	b.Started += c.Started
	b.Flushed += c.Flushed
	b.Aborted += c.Aborted
	addCounts(&b.ByReason, c.ByReason)
}

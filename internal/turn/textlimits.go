package turn

import (
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// The text of the model passes these steps, in this order:
//
//	applyStopSequences  the stop sequences, which may end the text,
//	applyTokenLimit     the limit of tokens, which may end the text,
//	scanText            the scanner, which separates the blocks from the text, and the policy.
//
// The first and the last step may hold a part of the text. Each may end the turn; later text is ignored.

// textLimits are the stop sequences and the limit of tokens, which may end the turn early.
type textLimits struct {
	stopFilter   *stopFilter   // nil: there are no stop sequences
	tokens       *tokens.Limit // nil: there is no limit
	fromBudget   int           // number of tokens that were taken from the budget
	stopSequence string        // the stop sequence that has ended the turn
}

func newTextLimits(opts *Options) textLimits {
	c := textLimits{stopFilter: newStopFilter(opts.StopSequences)}
	switch {
	case opts.Budget != nil:
		c.tokens = tokens.NewLimit(0) // takeFromBudget raises it
	case opts.MaxTokens > 0:
		c.tokens = tokens.NewLimit(opts.MaxTokens)
	}
	return c
}

// clear removes the stop sequences, with the text that they hold, and the limit.
func (c *textLimits) clear() { c.stopFilter, c.tokens = nil, nil }

// takeFromBudget raises the limit by tokens of the budget, in steps (see minBudgetStep), until n more bytes
// are certainly within the limit, the budget is empty, or the turn has taken opts.MaxTokens.
func (c *textLimits) takeFromBudget(opts *Options, n int) {
	for opts.Budget != nil && !c.tokens.Fits(n) {
		want := min(max(c.fromBudget, minBudgetStep), maxBudgetStep)
		if opts.MaxTokens > 0 {
			want = min(want, opts.MaxTokens-c.fromBudget)
		}
		if want <= 0 {
			return
		}
		got := opts.Budget.Take(want)
		if got == 0 {
			return
		}
		c.tokens.Raise(got)
		c.fromBudget += got
	}
}

// A turn takes tokens from its budget in steps. Each step is as large as all steps before it together, but
// from minBudgetStep to maxBudgetStep. So the turn does not take many more tokens than it needs.
const (
	minBudgetStep = 16
	maxBudgetStep = 1024
)

// maxBudgetPiece bounds the pieces of text of a turn with a budget, in bytes. Before each piece, the turn
// takes as many tokens as the piece has bytes, the most that it can need, if budget and MaxTokens allow.
const maxBudgetPiece = 256

func (m *Machine) applyStopSequences(text string) {
	if m.limits.stopFilter == nil {
		m.applyTokenLimit(text)
		return
	}
	before, found := m.limits.stopFilter.feed(text)
	m.applyTokenLimit(before)
	if found && !m.stopped() {
		m.limits.stopSequence = m.limits.stopFilter.foundSequence
		m.finish(false)
	}
}

// applyTokenLimit processes text that is not a part of a stop sequence.
func (m *Machine) applyTokenLimit(text string) {
	limit := m.limits.tokens
	for text != "" && !m.stopped() {
		if limit == nil {
			m.scanText(text)
			return
		}
		piece := text
		if m.opts.Budget != nil {
			piece = tokens.Prefix(text, maxBudgetPiece)
			m.limits.takeFromBudget(m.opts, len(piece))
		}
		text = text[len(piece):]
		within, exceeded := limit.Add(piece)
		if within != "" {
			m.scanText(within)
		}
		if exceeded && !m.stopped() {
			m.endAtTokenLimit()
		}
	}
}

func (m *Machine) scanText(text string) {
	m.lastCall = lastCall{}
	m.usage.addText(text)
	if m.messages.pendingGap != "" {
		m.policy.addGap(m.messages.pendingGap)
		m.messages.pendingGap = ""
	}
	if !m.runs.runs.Open() && m.choice.Plain(text) { // while a block is open for the client, all text has to pass admit
		m.policy.addText(text)
	} else {
		m.processParts(m.choice.Text(text, m.parts[:0]))
	}
}

// releaseText passes on the text that the stop sequences hold, and ends the text. It is called before
// something that is not text, such as a call: neither a stop sequence nor a token continues after that.
func (m *Machine) releaseText() {
	if m.limits.stopFilter != nil {
		m.applyTokenLimit(m.limits.stopFilter.release())
	}
	if m.limits.tokens != nil {
		m.limits.tokens.End()
	}
}

// checkTokenLimit ends the turn, and returns true, if no token is left. releaseText must come first.
func (m *Machine) checkTokenLimit() bool {
	if m.limits.tokens == nil {
		return false
	}
	if m.limits.takeFromBudget(m.opts, 1); m.limits.tokens.Fits(1) {
		return false
	}
	m.endAtTokenLimit()
	return true
}

// countCall counts a sent structured call's tokens. If they exceed the limit, it ends the turn.
func (m *Machine) countCall(call *aggregator.Input) {
	if m.limits.tokens == nil || m.stopped() {
		return
	}
	m.limits.tokens.Whole(call.Name)
	m.limits.tokens.Whole(call.Text)
	if m.limits.takeFromBudget(m.opts, 0); !m.limits.tokens.Fits(0) {
		m.endAtTokenLimit()
	}
}

// endAtTokenLimit ends the turn in the same way as when the provider's own limit has cut it.
func (m *Machine) endAtTokenLimit() {
	m.usage.sentTokens = int64(m.limits.tokens.Count())
	m.limits.clear()
	m.finishCut(FinishLength)
}

// mayHoldTag reports whether the choice or the stop sequences may hold the beginning of a block.
func (m *Machine) mayHoldTag() bool {
	filter := m.limits.stopFilter
	return m.opts.findsBlocks() && (m.choice.Writing() || filter != nil && strings.Contains(filter.held, "<"))
}

// Counted returns how many tokens were counted for the limit: 0 without a limit, or after too many calls.
func (m *Machine) Counted() int64 {
	if m.limits.tokens == nil {
		return m.usage.sentTokens
	}
	return int64(m.limits.tokens.Count())
}

package turn

import (
	"bytes"
	"math"
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
// Each step may hold a part of the text, and each may end the turn. Text after the end is ignored.

// textLimits are the stop sequences and the limit of tokens. Either may end the turn before the
// model has finished.
type textLimits struct {
	stopFilter   *stopFilter   // nil: there are no stop sequences
	tokenLimit   *tokens.Limit // nil: there is no limit
	fromBudget   int           // number of tokens that were taken from the budget
	stopSequence string        // the stop sequence that has ended the turn
}

func newTextLimits(opts *Options) textLimits {
	c := textLimits{stopFilter: newStopFilter(opts.StopSequences)}
	switch {
	case opts.Budget != nil:
		c.tokenLimit = tokens.NewLimit(0) // takeFromBudget raises it
	case opts.MaxTokens > 0:
		c.tokenLimit = tokens.NewLimit(opts.MaxTokens)
	}
	return c
}

// clear removes the stop sequences and the limit, and drops the text that they hold.
func (c *textLimits) clear() { c.stopFilter, c.tokenLimit = nil, nil }

// mayHoldTag reports whether the text that the limits hold may contain the beginning of a block.
func (c *textLimits) mayHoldTag() bool {
	return c.stopFilter != nil && strings.Contains(c.stopFilter.held, "<") ||
		c.tokenLimit != nil && bytes.IndexByte(c.tokenLimit.Held(), '<') >= 0
}

// takeFromBudget takes tokens from the budget and raises the limit by them, until n more bytes are
// certainly within the limit. It stops earlier if the budget is empty, or if the turn has taken
// opts.MaxTokens.
func (c *textLimits) takeFromBudget(opts *Options, n int) {
	for opts.Budget != nil && !c.tokenLimit.Fits(n) {
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
		c.tokenLimit.Raise(got)
		c.fromBudget += got
	}
}

// A turn takes tokens from its budget in steps. Each step takes as many tokens as all earlier steps
// together, but at least minBudgetStep and at most maxBudgetStep. So a turn does not take many more
// tokens than it needs.
const (
	minBudgetStep = 16
	maxBudgetStep = 1024
)

// maxBudgetPiece bounds the pieces in which a turn with a budget processes text, in bytes. A piece
// has at most as many tokens as bytes. So before each piece, the turn takes tokens from the budget
// until it has one for each byte, as far as the budget and MaxTokens allow.
const maxBudgetPiece = 256

// applyStopSequences processes the next piece of a message.
func (m *Machine) applyStopSequences(text string) {
	if m.limits.stopFilter == nil {
		m.applyTokenLimit(text)
		return
	}
	before, found := m.limits.stopFilter.feed(text)
	m.applyTokenLimit(before)
	if found && !m.stopped() {
		m.limits.stopSequence = m.limits.stopFilter.foundSequence
		m.flushMessage("") // this may still emit calls, which change the reason
		m.finish(m.finishReason())
	}
}

// applyTokenLimit processes text that is not a part of a stop sequence.
func (m *Machine) applyTokenLimit(text string) {
	if text == "" || m.stopped() {
		return
	}
	if m.limits.tokenLimit == nil {
		m.scanText(text, false)
		return
	}
	if m.opts.Budget == nil {
		m.scanText(m.limits.tokenLimit.Add(text))
		return
	}
	for text != "" && !m.stopped() && m.limits.tokenLimit != nil {
		n := min(len(text), maxBudgetPiece)
		m.limits.takeFromBudget(m.opts, n)
		m.scanText(m.limits.tokenLimit.Add(text[:n]))
		text = text[n:]
	}
}

// scanText processes text within the limit of tokens. If limitReached is true, the limit has cut
// the text after this piece, and scanText ends the turn.
func (m *Machine) scanText(text string, limitReached bool) {
	if text != "" {
		m.lastCall = lastCall{}
		m.usage.addText(text)
		if m.messages.pendingGap != "" {
			m.policy.addGap(m.messages.pendingGap)
			m.messages.pendingGap = ""
		}
		if m.choice.Plain(text) {
			m.policy.addText(text)
		} else {
			m.processParts(m.choice.Text(text, m.parts[:0]))
		}
	}
	if limitReached && !m.stopped() {
		m.endAtTokenLimit()
	}
}

// releaseText passes on the text that the stop sequences and the limit hold. It is called before
// something that is not text, such as a call: neither a stop sequence nor a token continues after
// that.
func (m *Machine) releaseText() {
	if m.limits.stopFilter != nil {
		m.applyTokenLimit(m.limits.stopFilter.release())
	}
	if m.limits.tokenLimit != nil && !m.stopped() {
		m.limits.takeFromBudget(m.opts, 0)
		m.scanText(m.limits.tokenLimit.End())
	}
}

// checkTokenLimit reports whether the limit of tokens is reached. If so, it ends the turn. The
// caller must call releaseText first.
func (m *Machine) checkTokenLimit() bool {
	if m.limits.tokenLimit == nil {
		return false
	}
	if m.limits.takeFromBudget(m.opts, 1); !m.limits.tokenLimit.Full() {
		return false
	}
	m.endAtTokenLimit()
	return true
}

// countCall counts the tokens of a structured call that was sent. If they exceed the limit, it ends
// the turn.
func (m *Machine) countCall(call *aggregator.Input) {
	if m.limits.tokenLimit == nil || m.stopped() {
		return
	}
	m.limits.tokenLimit.Whole(call.Name)
	m.limits.tokenLimit.Whole(call.Text)
	if m.limits.takeFromBudget(m.opts, 0); m.limits.tokenLimit.Exceeded() {
		m.endAtTokenLimit()
	}
}

// endAtTokenLimit ends the turn at the limit of tokens, in the same way as a turn that the
// provider's own limit has cut.
func (m *Machine) endAtTokenLimit() {
	m.usage.sentTokens = int64(m.limits.tokenLimit.Count())
	m.limits.clear() // the held text is beyond the limit
	m.finishCut(FinishLength)
}

// mayHoldTag reports whether the choice or the limits may hold the beginning of a block.
func (m *Machine) mayHoldTag() bool {
	if !m.opts.findsBlocks() {
		return false
	}
	return m.choice.Writing() || m.limits.mayHoldTag()
}

// Counted returns how many tokens of text and calls the limit of tokens has counted. It returns 0
// if the turn has no limit of tokens, or if the model exceeded the limit of calls first.
func (m *Machine) Counted() int64 {
	if m.limits.tokenLimit == nil {
		return m.usage.sentTokens
	}
	m.limits.tokenLimit.Whole("")           // ends the text
	m.limits.tokenLimit.Fits(math.MaxInt32) // counts text that was not counted yet
	return int64(m.limits.tokenLimit.Count())
}

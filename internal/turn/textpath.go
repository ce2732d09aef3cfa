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
//	untilStop    the stop sequences, which may end the text,
//	withinLimit  the limit of tokens, which may end the text,
//	buffered     the scanner, which separates the blocks from the text, and the policy.
//
// Each step may hold a part of the text, and each may end the turn. Text after the end is ignored.

// cuts are the stop sequences and the limit of tokens, which may end the text before the model
// does.
type cuts struct {
	stops    *stopFilter   // nil: there are no stop sequences
	limit    *tokens.Limit // nil: there is no limit
	funded   int           // tokens of the limit that were taken from the budget
	sequence string        // the stop sequence that has ended the turn
}

func newCuts(opts *Options) cuts {
	c := cuts{stops: newStopFilter(opts.StopSequences)}
	switch {
	case opts.Budget != nil:
		c.limit = tokens.NewLimit(0) // fund raises it
	case opts.MaxTokens > 0:
		c.limit = tokens.NewLimit(opts.MaxTokens)
	}
	return c
}

// drop removes the stop sequences and the limit, with the text that they hold.
func (c *cuts) drop() { c.stops, c.limit = nil, nil }

// holdTag reports whether the held text may have the beginning of a block.
func (c *cuts) holdTag() bool {
	return c.stops != nil && strings.Contains(c.stops.held, "<") ||
		c.limit != nil && bytes.IndexByte(c.limit.Held(), '<') >= 0
}

// fund takes tokens from the budget and raises the limit by them, until n more bytes are certainly
// within the limit. It stops when the budget is empty, or when it has taken opts.MaxTokens.
func (c *cuts) fund(opts *Options, n int) {
	for opts.Budget != nil && !c.limit.Fits(n) {
		want := min(max(c.funded, leastStep), mostStep)
		if opts.MaxTokens > 0 {
			want = min(want, opts.MaxTokens-c.funded)
		}
		if want <= 0 {
			return
		}
		got := opts.Budget.Take(want)
		if got == 0 {
			return
		}
		c.limit.Raise(got)
		c.funded += got
	}
}

// A turn takes tokens from its budget in steps. Each step takes as many tokens as all earlier steps
// together, but at least leastStep and at most mostStep. So the turn takes few tokens that it does
// not need and that other turns could use.
const (
	leastStep = 16
	mostStep  = 1024
)

// lookAhead is the most bytes of text that a turn with a budget processes at once. Before that, the
// turn takes enough tokens from the budget for one token for each byte, if the budget has them. The
// text cannot have more tokens.
const lookAhead = 256

// untilStop processes the next piece of a message.
func (m *Machine) untilStop(text string) {
	if m.cuts.stops == nil {
		m.withinLimit(text)
		return
	}
	before, found := m.cuts.stops.feed(text)
	m.withinLimit(before)
	if found && !m.stopped() {
		m.cuts.sequence = m.cuts.stops.found
		m.closeBuffer("") // this may still emit calls, which change the reason
		m.finish(m.reason())
	}
}

// withinLimit processes text before a stop sequence.
func (m *Machine) withinLimit(text string) {
	if text == "" || m.stopped() {
		return
	}
	if m.cuts.limit == nil {
		m.buffered(text, false)
		return
	}
	if m.opts.Budget == nil {
		m.buffered(m.cuts.limit.Add(text))
		return
	}
	for text != "" && !m.stopped() && m.cuts.limit != nil {
		n := min(len(text), lookAhead)
		m.cuts.fund(m.opts, n)
		m.buffered(m.cuts.limit.Add(text[:n]))
		text = text[n:]
	}
}

// buffered processes text within the limit. over is true if the limit has cut the text after this
// piece; buffered then ends the turn.
func (m *Machine) buffered(text string, over bool) {
	if text != "" {
		m.last = lastSaid{}
		m.usage.say(text)
		if m.texts.gapDue != "" {
			m.policy.gap(m.texts.gapDue)
			m.texts.gapDue = ""
		}
		if m.choice.Plain(text) {
			m.policy.text(text)
		} else {
			m.pass(m.choice.Text(text, m.parts[:0]))
		}
	}
	if over && !m.stopped() {
		m.overLimit()
	}
}

// releaseText passes on the text that the stop sequences and the limit hold. It is called before
// something else follows the text, such as a call, since no stop sequence and no token can extend
// beyond that.
func (m *Machine) releaseText() {
	if m.cuts.stops != nil {
		m.withinLimit(m.cuts.stops.release())
	}
	if m.cuts.limit != nil && !m.stopped() {
		m.cuts.fund(m.opts, 0)
		m.buffered(m.cuts.limit.End())
	}
}

// full reports whether the limit is reached. If so, it ends the turn. The caller has called
// releaseText.
func (m *Machine) full() bool {
	if m.cuts.limit == nil {
		return false
	}
	if m.cuts.fund(m.opts, 1); !m.cuts.limit.Full() {
		return false
	}
	m.overLimit()
	return true
}

// countCall counts the tokens of a structured call that was sent.
func (m *Machine) countCall(call *aggregator.Input) {
	if m.cuts.limit == nil || m.stopped() {
		return
	}
	m.cuts.limit.Whole(call.Name)
	m.cuts.limit.Whole(call.Text)
	if m.cuts.fund(m.opts, 0); m.cuts.limit.Exceeded() {
		m.overLimit()
	}
}

// overLimit ends the turn at the client's limit of tokens, just as the provider's own limit would.
func (m *Machine) overLimit() {
	m.usage.counted = int64(m.cuts.limit.Count())
	m.cuts.drop() // what they hold is beyond the limit
	m.finishCut(FinishLength)
}

// tagHeld reports whether the beginning of a block may be held.
func (m *Machine) tagHeld() bool {
	if !m.opts.textual() {
		return false
	}
	return m.choice.Writing() || m.cuts.holdTag()
}

// Counted returns how many tokens of text and calls the limit has counted. It returns 0 if the turn
// has no limit, or if the model exceeded the limit of calls before this one.
func (m *Machine) Counted() int64 {
	if m.cuts.limit == nil {
		return m.usage.counted
	}
	m.cuts.limit.Whole("") // ends the text
	m.cuts.limit.Fits(math.MaxInt32)
	return int64(m.cuts.limit.Count())
}

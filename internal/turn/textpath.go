package turn

import (
	"bytes"
	"math"
	"strings"

	"github.com/caddy-codex/caddy-codex/aggregator"
)

// The text of the model passes, in this order,
//
//	untilStop    the stop sequences, which end it,
//	withinLimit  the limit of tokens, which ends it,
//	buffered     the scanner, which takes the blocks out of it, and the policy.
//
// Each may hold a part of it, and each may end the turn: the text after that is ignored.

// untilStop processes the next piece of a message.
func (m *Machine) untilStop(text string) {
	if m.stops == nil {
		m.withinLimit(text)
		return
	}
	before, found := m.stops.feed(text)
	m.withinLimit(before)
	if found && !m.stopped() {
		m.sequence = m.stops.found
		m.closeBuffer("") // which may still emit calls
		m.finish(m.reason())
	}
}

// withinLimit processes text before a stop sequence.
func (m *Machine) withinLimit(text string) {
	if text == "" || m.stopped() {
		return
	}
	if m.limit == nil {
		m.buffered(text, false)
		return
	}
	if m.opts.Budget == nil {
		m.buffered(m.limit.Add(text))
		return
	}
	for text != "" && !m.stopped() && m.limit != nil {
		n := min(len(text), lookAhead)
		m.fund(n)
		m.buffered(m.limit.Add(text[:n]))
		text = text[n:]
	}
}

// buffered processes text within the limit; over means that the limit cut the rest.
func (m *Machine) buffered(text string, over bool) {
	if text != "" {
		m.cut, m.afterCall = false, false
		m.usage.say(text)
		if m.gap != "" {
			m.policy.gap(m.gap)
			m.gap = ""
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

// releaseText passes on what the stop sequences and the limit hold. Neither a sequence
// nor a token spans such a place.
func (m *Machine) releaseText() {
	if m.stops != nil {
		m.withinLimit(m.stops.release())
	}
	if m.limit != nil && !m.stopped() {
		m.fund(0)
		m.buffered(m.limit.End())
	}
}

// full reports whether the limit is reached, and then ends the turn. The text before
// must have been released.
func (m *Machine) full() bool {
	if m.limit == nil {
		return false
	}
	if m.fund(1); !m.limit.Full() {
		return false
	}
	m.overLimit()
	return true
}

// countCall counts the tokens of a structured call that was sent.
func (m *Machine) countCall(call *aggregator.Input) {
	if m.limit == nil || m.stopped() {
		return
	}
	m.limit.Whole(call.Name)
	m.limit.Whole(call.Text)
	if m.fund(0); m.limit.Exceeded() {
		m.overLimit()
	}
}

// overLimit ends the turn at its limit of tokens, as the provider's own limit does.
func (m *Machine) overLimit() {
	m.usage.counted = int64(m.limit.Count())
	m.stops, m.limit = nil, nil // what they hold is beyond the limit
	m.finishCut(FinishLength)
}

// tagHeld reports whether the beginning of a block may be held.
func (m *Machine) tagHeld() bool {
	if !m.opts.textual() {
		return false
	}
	return m.choice.Writing() ||
		m.stops != nil && strings.Contains(m.stops.held, "<") ||
		m.limit != nil && bytes.IndexByte(m.limit.Held(), '<') >= 0
}

// How many tokens a turn takes from its budget at once: as many as it has already, within
// these bounds. So other turns are not cut for want of tokens that this one does not need.
const (
	leastStep = 16
	mostStep  = 1024
)

// lookAhead is for how many bytes of text tokens are taken in advance. A token has one or more.
const lookAhead = 256

// fund takes tokens from the budget until n more bytes are certainly within the limit, as
// far as the budget has some and the request's own limit allows.
func (m *Machine) fund(n int) {
	for m.opts.Budget != nil && !m.limit.Fits(n) {
		want := min(max(m.funded, leastStep), mostStep)
		if m.opts.MaxTokens > 0 {
			want = min(want, m.opts.MaxTokens-m.funded)
		}
		if want <= 0 {
			return
		}
		got := m.opts.Budget.Take(want)
		if got == 0 {
			return
		}
		m.limit.Raise(got)
		m.funded += got
	}
}

// Counted returns the tokens of the text and the calls that were counted for the limit.
func (m *Machine) Counted() int64 {
	if m.limit == nil {
		return m.usage.counted
	}
	m.limit.Whole("") // ends the text
	m.limit.Fits(math.MaxInt32)
	return int64(m.limit.Count())
}

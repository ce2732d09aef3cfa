package turn

import (
	"bytes"
	"strings"
)

// The text of the model passes, in this order,
//
//	untilStop    the stop sequences, which end it,
//	withinLimit  the limit of tokens, which ends it,
//	buffered     the tool buffer, which takes the blocks out of it,
//	             and the policy.
//
// Each may hold a part of it, and each may end the turn: what follows then is
// not the client's.

// untilStop takes the next piece of a message.
func (m *Machine) untilStop(text string) {
	if m.stops == nil {
		m.withinLimit(text)
		return
	}
	before, found := m.stops.feed(text)
	m.withinLimit(before)
	if found && !m.stopped() {
		m.closeBuffer("") // which may bring calls yet
		m.finish(m.reason())
	}
}

// withinLimit takes what no stop sequence has cut off.
func (m *Machine) withinLimit(text string) {
	if text == "" || m.stopped() {
		return
	}
	if m.limit == nil {
		m.buffered(text, false)
		return
	}
	m.buffered(m.limit.Add(text))
}

// buffered takes what is within the limit; over says that more is not.
func (m *Machine) buffered(text string, over bool) {
	if text != "" {
		m.cut, m.lastCall = false, nil
		m.policy.gap(m.gap)
		m.gap = ""
		if m.scanner == nil {
			m.policy.text(text)
		} else {
			m.scanned(m.scanner.Feed(text, m.segments[:0]))
		}
	}
	if over && !m.stopped() {
		m.overLimit()
	}
}

// releaseText lets out what the stop sequences and the limit hold: no more
// text of theirs follows. A sequence does not reach over such a place, nor does
// a token.
func (m *Machine) releaseText() {
	if m.stops != nil {
		m.withinLimit(m.stops.release())
	}
	if m.limit != nil && !m.stopped() {
		m.buffered(m.limit.End())
	}
}

// full reports whether nothing more has room within the limit, and then ends
// the turn. The text before is at its end.
func (m *Machine) full() bool {
	if m.limit == nil || !m.limit.Full() {
		return false
	}
	m.overLimit()
	return true
}

// countCall counts a structured call that went out.
func (m *Machine) countCall(call *candidate) {
	if m.limit == nil || m.stopped() {
		return
	}
	m.limit.Whole(call.name)
	m.limit.Whole(call.arguments)
	if m.limit.Exceeded() {
		m.overLimit()
	}
}

// overLimit ends the turn at the limit of its tokens, as the provider's own
// limit does.
func (m *Machine) overLimit() {
	m.usage.counted = int64(m.limit.Count())
	m.stops, m.limit = nil, nil // what they hold is beyond it
	m.finishCut(FinishLength)
}

// tagHeld reports whether the beginning of a block may be held.
func (m *Machine) tagHeld() bool {
	if m.scanner == nil {
		return false
	}
	return m.scanner.Held() > 0 ||
		m.stops != nil && strings.Contains(m.stops.held, "<") ||
		m.limit != nil && bytes.IndexByte(m.limit.Held(), '<') >= 0
}

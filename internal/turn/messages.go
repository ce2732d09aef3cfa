package turn

import (
	"hash/maphash"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// MessageGap separates messages, or parts of a summary, for a client that reads them as one text.
const MessageGap = "\n\n"

// maxMessages bounds the tracked messages of a turn, which usually has a few. Of further messages, the
// client gets the deltas, but not what is missing in them (see messages).
const maxMessages = 1024

// messages tracks the agent messages of a turn. Their text comes as deltas, and then once more as a whole.
// The client gets the deltas, and from the whole text what was missing in them. Messages are identified by
// their item's id, not by their text, so that repeated text is kept.
type messages struct {
	seed     maphash.Seed
	all      []message // as they began: the next text is nearly always the last one's
	lastItem string    // id of the item that the last text belongs to

	differs    bool // the client got other text than Codex has
	incomplete int  // number of messages that had deltas, but not yet their whole text

	hasText         bool   // there was text
	responseHasText bool   // there was text in the current model response
	pendingGap      string // the gap to send before the next text
	lastSummaryPart summaryPart
}

// message has the length and the hash of an item's text so far, to compare with the whole text.
type message struct {
	id     string
	length int
	hash   maphash.Hash
	done   bool // the whole text has come
}

// summaryPart is a part of a reasoning summary; zero: none.
type summaryPart struct {
	item   string
	number int // the index plus 1, so that no part is zero
}

// addDelta returns the text that a delta adds, and the gap before it.
func (t *messages) addDelta(item, text string) (gap, added string) {
	if text == "" {
		return "", ""
	}
	if m := t.message(item); m != nil {
		if m.done {
			t.differs = true
			return "", "" // deltas after the whole text are ignored
		}
		if m.length == 0 {
			t.incomplete++
		}
		m.length += len(text)
		_, _ = m.hash.WriteString(text)
	}
	return t.gapBefore(item), text
}

// complete processes an item's whole text. It returns the text that was missing in the deltas, and the gap
// before. Some providers trim or mend the end of a text, so the whole may not begin with the deltas, which
// the client already has. Then complete returns nothing and sets differs.
func (t *messages) complete(item, whole string) (gap, added string) {
	m := t.message(item)
	if m == nil {
		return "", ""
	}
	if m.length > 0 && !m.done {
		t.incomplete--
	}
	switch {
	case len(whole) < m.length || maphash.String(t.seed, whole[:m.length]) != m.hash.Sum64(),
		m.done && len(whole) > m.length:
		t.differs = true
	case len(whole) > m.length:
		gap, added = t.gapBefore(item), whole[m.length:]
		m.length = len(whole)
		_, _ = m.hash.WriteString(added)
	}
	m.done = true
	return gap, added
}

// gapBefore returns the separator before a new text of this item. The separator is empty if the
// text before belongs to the same item, or if there was no text before.
func (t *messages) gapBefore(item string) string {
	changed := t.hasText && item != t.lastItem
	t.hasText, t.responseHasText, t.lastItem = true, true, item
	if changed {
		return MessageGap
	}
	return ""
}

// message returns the message of an item, which it makes if needed, or nil if there are maxMessages others.
func (t *messages) message(id string) *message {
	for i := len(t.all) - 1; i >= 0; i-- {
		if t.all[i].id == id {
			return &t.all[i]
		}
	}
	if len(t.all) >= maxMessages {
		return nil
	}
	if t.all == nil {
		t.seed = maphash.MakeSeed()
	}
	t.all = append(t.all, message{id: id})
	m := &t.all[len(t.all)-1]
	m.hash.SetSeed(t.seed)
	return m
}

// gapBeforeReasoning returns the gap before a delta of a reasoning summary.
func (t *messages) gapBeforeReasoning(item string, index int) string {
	before := t.lastSummaryPart
	t.lastSummaryPart = summaryPart{item, index + 1}
	if before != (summaryPart{}) && t.lastSummaryPart != before {
		return MessageGap
	}
	return ""
}

// emitSearch emits the start or end of a search. The client's history has no searches, so the thread
// differs from what the client was given.
func (m *Machine) emitSearch(o Output) {
	m.thread.differs = true
	if m.opts.Items && !m.stopped() {
		m.out.emit(o)
	}
}

// emitAnnotations emits the annotations of the last message. It drops them if the client did not
// get all the text as the model wrote it, since their indexes would be wrong.
func (m *Machine) emitAnnotations(e *codexrpc.Event) {
	start := m.out.chars - e.Index // Index is the message's number of characters; below 0: not all were sent
	if !m.opts.WebSearch || m.stopped() || m.messages.lastItem != e.ItemID || start < 0 || m.report.Started > 0 {
		return
	}
	m.out.emit(Output{Kind: OutputAnnotations, ID: e.ItemID, Text: e.Text, Part: start})
}

// emitMessageEnd emits the end of the last message if messageCompleted has delayed it.
func (m *Machine) emitMessageEnd() {
	if phase := m.endedPhase; phase != "" {
		m.endedPhase = ""
		if !m.stopped() {
			m.policy.endMessage(phase)
		}
	}
}

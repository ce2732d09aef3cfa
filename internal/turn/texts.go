package turn

import "hash/maphash"

// MessageGap separates two messages, or two parts of a reasoning summary, that Codex
// sends as separate items and a client reads as one text.
const MessageGap = "\n\n"

// maxItems bounds the messages of one turn that are tracked. A turn has a few. The client gets the
// deltas of further messages as well. But if such a delta is lost, its text stays missing, see
// texts.
const maxItems = 1024

// texts tracks the agent messages of a turn. The text of a message comes as deltas, and then once
// more as a whole. From the whole text, the client gets only what was missing in the deltas.
// Messages are identified by the id of their item, never by their text, so that repeated text is
// kept.
type texts struct {
	seed  maphash.Seed
	first message             // the only message of most turns
	items map[string]*message // the others
	last  string              // the item of the last text

	recent *message // the last result of item; nil: none

	differs bool // Codex has other text than the client got
	open    int  // messages of which there were deltas, but not yet the whole

	any     bool   // there was text
	begun   bool   // there was text in the model response under way
	gapDue  string // the gap before the text that comes next
	summary summaryPart
	reasons bool // there was reasoning: summary is its last part
}

// message has the length and the hash of the text of one item so far. They suffice to compare the
// deltas with the whole text, so the text itself is not kept.
type message struct {
	id     string
	length int
	hash   maphash.Hash
	done   bool
}

// summaryPart identifies a part of a reasoning summary.
type summaryPart struct {
	item  string
	index int
}

// delta returns the gap and the text that a delta adds.
func (t *texts) delta(item, text string) (gap, added string) {
	if text == "" {
		return "", ""
	}
	if m := t.item(item); m != nil {
		if m.done {
			t.differs = true
			return "", "" // deltas after the whole are ignored
		}
		if m.length == 0 {
			t.open++
		}
		m.length += len(text)
		_, _ = m.hash.WriteString(text)
	}
	return t.gap(item), text
}

// completed returns the part of an item's whole text that was missing in its deltas, and the gap
// before this part. Without deltas it returns the whole text. Some providers trim or mend a text at
// its end, so that it does not begin with the deltas. completed then returns nothing, since the
// client already has the deltas. The turn does not fail, but the text in Codex's thread differs
// from the client's.
func (t *texts) completed(item, whole string) (gap, added string) {
	m := t.item(item)
	if m == nil {
		return "", ""
	}
	if m.length > 0 && !m.done {
		t.open--
	}
	switch {
	case len(whole) < m.length || maphash.String(t.seed, whole[:m.length]) != m.hash.Sum64(),
		m.done && len(whole) > m.length:
		t.differs = true
	case len(whole) > m.length:
		gap, added = t.gap(item), whole[m.length:]
		m.length = len(whole)
		_, _ = m.hash.WriteString(added)
	}
	m.done = true
	return gap, added
}

// gap returns the separator between the text of the previous item and a new text of this item. It
// is empty if both are the same item, or if there was no text before.
func (t *texts) gap(item string) string {
	changed := t.any && item != t.last
	t.any, t.begun, t.last = true, true, item
	if changed {
		return MessageGap
	}
	return ""
}

// item returns the message of an item. If there is none, item makes one, or returns nil if there
// are maxItems messages.
func (t *texts) item(id string) *message {
	if t.recent != nil && t.recent.id == id {
		return t.recent
	}
	m := t.items[id]
	switch {
	case m != nil:
	case t.recent == nil:
		t.seed = maphash.MakeSeed()
		m = t.first.begin(id, t.seed)
	case t.first.id == id:
		m = &t.first
	case len(t.items)+1 >= maxItems:
		return nil
	default:
		if t.items == nil {
			t.items = make(map[string]*message)
		}
		m = new(message).begin(id, t.seed)
		t.items[m.id] = m
	}
	t.recent = m
	return m
}

// begin begins the message of an item.
func (m *message) begin(id string, seed maphash.Seed) *message {
	m.id = id
	m.hash.SetSeed(seed)
	return m
}

// reasoning returns the gap before a delta of a reasoning summary.
func (t *texts) reasoning(item string, index int) string {
	before, begun := t.summary, t.reasons
	t.summary, t.reasons = summaryPart{item, index}, true
	if begun && t.summary != before {
		return MessageGap
	}
	return ""
}

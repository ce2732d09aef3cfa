package codexrpc

import "github.com/tidwall/gjson"

// delta is a line with a delta. Its slices are parts of the line, except for a text that
// has escapes.
type delta struct {
	kind                     EventKind
	threadID, turnID, itemID []byte
	text                     []byte
	index                    int
}

// The parts of a line with a delta, in the order in which Codex writes them.
const (
	deltaMethod  = `{"method":"`
	deltaThread  = `","params":{"threadId":"`
	deltaTurn    = `,"turnId":"`
	deltaItem    = `,"itemId":"`
	deltaText    = `,"delta":"`
	deltaIndex   = `,"summaryIndex":`
	deltaEmitted = `,"emittedAtMs":`
)

// parseDelta parses a line in exactly the form in which Codex writes deltas, in one pass:
// nearly all lines are these. It reports false for any other line, which may be a delta
// all the same, or no JSON: [parseMessage] finds that out.
func parseDelta(line []byte) (d delta, ok bool) {
	s := deltaScanner{rest: line, ok: true}
	s.literal(deltaMethod)
	switch {
	case s.skip(methodTextDelta):
		d.kind = EventTextDelta
	case s.skip(methodReasoningDelta):
		d.kind = EventReasoningDelta
	default:
		return delta{}, false
	}
	s.literal(deltaThread)
	d.threadID = s.id()
	s.literal(deltaTurn)
	d.turnID = s.id()
	s.literal(deltaItem)
	d.itemID = s.id()
	s.literal(deltaText)
	d.text = s.text()
	if d.kind == EventReasoningDelta && s.skip(deltaIndex) {
		d.index = s.number()
	}
	s.literal(`}`)
	if s.skip(deltaEmitted) {
		s.number()
	}
	s.literal(`}`)
	return d, s.ok && len(s.rest) == 0
}

// deltaScanner reads a line from its beginning. Once something is not as expected, ok is
// false.
type deltaScanner struct {
	rest []byte
	ok   bool
}

// skip skips a text, if the rest begins with it.
func (s *deltaScanner) skip(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// literal skips a text that has to be there.
func (s *deltaScanner) literal(text string) { s.ok = s.skip(text) && s.ok }

// id reads a string without escapes whose first quote is skipped.
func (s *deltaScanner) id() []byte {
	text, escaped := s.string()
	s.ok = s.ok && !escaped
	return text
}

// text reads a string whose first quote is skipped.
func (s *deltaScanner) text() []byte {
	raw, escaped := s.string()
	if !escaped || !s.ok {
		return raw
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	if !gjson.ValidBytes(quoted) {
		s.ok = false
		return nil
	}
	return []byte(gjson.ParseBytes(quoted).Str)
}

// string returns what is between the quotes of a string whose first quote is skipped,
// and whether it has escapes.
func (s *deltaScanner) string() (raw []byte, escaped bool) {
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			raw, s.rest = s.rest[:i], s.rest[i+1:]
			return raw, escaped
		case c == '\\':
			escaped = true
			i++ // what follows is checked by text
		case c < ' ':
			s.ok = false
			return nil, false
		}
	}
	s.ok = false
	return nil, false
}

// maxDigits is how many digits a number may have that number reads.
const maxDigits = 15

// number reads a number without a sign.
func (s *deltaScanner) number() (n int) {
	digits := 0
	for digits < len(s.rest) && '0' <= s.rest[digits] && s.rest[digits] <= '9' && digits <= maxDigits {
		n = n*10 + int(s.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > maxDigits || s.rest[0] == '0' && digits > 1 {
		s.ok = false
		return 0
	}
	s.rest = s.rest[digits:]
	return n
}

// handleDelta passes a delta to its thread.
func (c *Conn) handleDelta(d *delta) {
	c.mu.Lock()
	t := c.threads[string(d.threadID)]
	c.mu.Unlock()
	if t == nil {
		c.count(&c.stats.Unrouted)
		return
	}
	c.countRefused(t.acceptDelta(d))
}

// acceptDelta queues a delta of the thread, as accept does.
func (t *Thread) acceptDelta(d *delta) error {
	turnID := t.turn()
	switch {
	case turnID == "":
		return t.accept(&Event{
			Kind: d.kind, Index: d.index, ItemID: string(d.itemID), Text: string(d.text), threadID: t.id, turnID: string(d.turnID), size: len(d.text),
		})
	case string(d.turnID) != turnID:
		return errUnrouted
	case !t.queue.pushDelta(d, t.id, turnID):
		return ErrTooSlow
	}
	return nil
}

package codexrpc

// delta is a line with a delta. Its strings may share the line's memory.
type delta struct {
	kind                           EventKind
	threadID, turnID, itemID, text string
	index                          int
}

// parseDelta parses a line in exactly the form in which Codex writes deltas, without looking
// at the names of members: nearly all lines are these. It reports false for any other line,
// which may be a delta all the same, or no JSON: [parseMessage] finds that out.
func parseDelta(line []byte) (d delta, ok bool) {
	s := scanner{line: line, ok: true}
	s.literal(`{"method":"`)
	switch {
	case s.skip(methodTextDelta):
		d.kind = EventTextDelta
	case s.skip(methodReasoningDelta):
		d.kind = EventReasoningDelta
	default:
		return delta{}, false
	}
	s.literal(`","params":{"threadId":`)
	d.threadID = s.text()
	s.literal(`,"turnId":`)
	d.turnID = s.text()
	s.literal(`,"itemId":`)
	d.itemID = s.text()
	s.literal(`,"delta":`)
	d.text = s.text()
	if d.kind == EventReasoningDelta && s.skip(`,"summaryIndex":`) {
		d.index = int(s.integer())
	}
	s.literal(`}`)
	if s.skip(`,"emittedAtMs":`) {
		s.integer()
	}
	s.literal(`}`)
	return d, s.ok && s.pos == len(line)
}

// handleDelta passes a delta to its thread.
func (c *Conn) handleDelta(d *delta) {
	t := c.thread(d.threadID)
	if t == nil || !t.acceptDelta(d) {
		c.count(&c.stats.Unrouted)
	}
}

// acceptDelta queues a delta of the thread, as accept does.
func (t *Thread) acceptDelta(d *delta) bool {
	turnID := t.turn()
	if turnID == "" {
		return t.accept(&Event{
			Kind: d.kind, Index: d.index, ItemID: d.itemID, Text: d.text, threadID: t.id, turnID: d.turnID, size: len(d.text),
		})
	}
	if d.turnID != turnID {
		return false
	}
	d.threadID, d.turnID, d.itemID = t.id, turnID, t.ownItem(d.itemID)
	t.countOverflow(t.queue.pushDelta(d))
	return true
}

package codexrpc

// delta is a parsed line from the app-server with a piece of text or of reasoning. Its strings may
// share the line's memory.
type delta struct {
	kind                           EventKind
	threadID, turnID, itemID, text string
	index                          int
}

// parseDelta parses a delta in exactly the form that Codex writes. It is faster than [parseMessage]: nearly
// all lines are deltas. It returns false for any other line.
func parseDelta(line []byte) (d delta, ok bool) {
	s := newScanner(line)
	s.Expect(`{"method":"`)
	switch {
	case s.Skip(methodTextDelta):
		d.kind = EventTextDelta
	case s.Skip(methodReasoningDelta):
		d.kind = EventReasoningDelta
	default:
		return delta{}, false
	}
	s.Expect(`","params":{"threadId":`)
	d.threadID = s.Text()
	s.Expect(`,"turnId":`)
	d.turnID = s.Text()
	s.Expect(`,"itemId":`)
	d.itemID = s.Text()
	s.Expect(`,"delta":`)
	d.text = s.Text()
	if d.kind == EventReasoningDelta && s.Skip(`,"summaryIndex":`) {
		d.index = int(s.Integer())
	}
	s.Expect(`}`)
	if s.Skip(`,"emittedAtMs":`) {
		s.Integer()
	}
	s.Expect(`}`)
	return d, s.OK() && s.Pos() == len(line)
}

func (c *Conn) handleDelta(d *delta) {
	if t := c.thread(d.threadID); t != nil {
		t.acceptDelta(d)
	}
}

// acceptDelta queues a delta of the running turn, and drops a delta of another turn.
func (t *Thread) acceptDelta(d *delta) {
	t.mu.Lock()
	turnID := t.turnID
	t.modelWrote = t.modelWrote || turnID != "" && turnID == d.turnID
	t.mu.Unlock()
	switch turnID {
	case "": // the id is not known yet: Recv will drop the event of another turn
		t.accept(&Event{
			Kind: d.kind, Index: d.index, ItemID: d.itemID, Text: d.text, threadID: t.id, turnID: d.turnID, size: len(d.text),
		})
	case d.turnID:
		d.threadID, d.turnID, d.itemID = t.id, turnID, t.copyItemID(d.itemID)
		t.queue.pushDelta(d)
	}
}

package codexrpc

// parseDelta reads a delta, a piece of text or of reasoning, into e, in exactly the form that Codex writes.
// It is faster than [parseMessage]: nearly all lines are deltas. It returns false for any other line.
func parseDelta(line []byte, e *Event) bool {
	*e = Event{}
	s := newScanner(line)
	s.Expect(`{"method":"`)
	switch {
	case s.Skip(methodTextDelta):
		e.Kind = EventTextDelta
	case s.Skip(methodReasoningDelta):
		e.Kind = EventReasoningDelta
	default:
		return false
	}
	s.Expect(`","params":{"threadId":`)
	e.threadID = s.Text()
	s.Expect(`,"turnId":`)
	e.turnID = s.Text()
	s.Expect(`,"itemId":`)
	e.ItemID = s.Text()
	s.Expect(`,"delta":`)
	e.Text = s.Text()
	if e.Kind == EventReasoningDelta && s.Skip(`,"summaryIndex":`) {
		e.Index = int(s.Integer())
	}
	s.Expect(`}`)
	if s.Skip(`,"emittedAtMs":`) {
		s.Integer()
	}
	s.Expect(`}`)
	e.size = len(e.Text)
	return s.OK() && s.Pos() == len(line)
}

// acceptDelta queues the delta in a line if it is of the running turn, and drops a delta of another turn.
func (t *Thread) acceptDelta(e *Event, line []byte) {
	t.tapLine(line)
	t.mu.Lock()
	turnID := t.turnID
	t.modelWrote = t.modelWrote || turnID != "" && turnID == e.turnID
	t.mu.Unlock()
	switch turnID {
	case "": // the id is not known yet: Recv will drop the event of another turn
		t.accept(e)
	case e.turnID:
		e.threadID, e.turnID, e.ItemID = t.id, turnID, t.copyItemID(e.ItemID)
		t.queue.pushDelta(e)
	}
}

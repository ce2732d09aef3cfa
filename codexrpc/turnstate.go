package codexrpc

import (
	"encoding/json"
	"errors"
	"strings"
)

// errForeign says that an event is not of the thread's own turn.
var errForeign = errors.New("not an event of the turn")

// accept takes an event that names the thread, in the reader's goroutine. The
// error, if any, matches errForeign or ErrTooSlow.
func (t *Thread) accept(e *Event) error {
	switch e.Kind {
	case eventTurnStarted:
		t.begin(e.turnID)
		return nil
	case EventTurnCompleted:
		t.begin(e.turnID) // should it be the first that is heard of the turn
	}
	if !t.mayOwn(e) {
		return errForeign
	}
	fits := t.queue.push(e)
	if e.Kind == EventTurnCompleted {
		t.conn.completed.Store(true)
		t.complete(e.Status == StatusCompleted)
	}
	if !fits {
		return ErrTooSlow
	}
	return nil
}

// mayOwn reports whether an event can be the turn's. Injected items are
// replayed as raw items of another turn before the turn's own id is known;
// other events that come so early wait for it in the queue.
func (t *Thread) mayOwn(e *Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turnID == "" {
		return e.Kind != EventFunctionCall && e.turnID != t.before
	}
	return e.turnID == t.turnID
}

// owns reports whether a turn is known to be the thread's own.
func (t *Thread) owns(turnID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return turnID == t.turnID && turnID != ""
}

// turn returns the id of the thread's turn, empty until it is known.
func (t *Thread) turn() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turnID
}

// begin notes the id of the thread's turn.
func (t *Thread) begin(turnID string) {
	t.mu.Lock()
	if t.turnID == "" && turnID != t.before {
		t.turnID = strings.Clone(turnID)
	}
	t.mu.Unlock()
	t.queue.signal() // what is queued can be taken now
}

// end notes that the turn is over without having completed, or that there will be
// none.
func (t *Thread) end() { t.complete(false) }

// complete notes that the turn is over, and whether it has completed.
func (t *Thread) complete(well bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.well = true, well
		close(t.ended)
	}
}

// markSent notes that there may be a turn from now on.
func (t *Thread) markSent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
}

// running reports whether there may be a turn that has not ended.
func (t *Thread) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent && !t.over
}

// parkedCall is a request of the app-server's for the result of a tool call.
type parkedCall struct {
	callID  string
	request json.RawMessage // its id
}

// park keeps a tool call's request unanswered: an answer makes the model go on.
// It reports false if the request is to be refused.
func (t *Thread) park(callID string, request json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered || len(t.parked) >= maxParked {
		return false
	}
	t.parked = append(t.parked, parkedCall{strings.Clone(callID), request})
	if t.arrived != nil {
		close(t.arrived)
		t.arrived = nil
	}
	return true
}

// unpark returns the requests to be answered now. Later ones are not parked.
func (t *Thread) unpark() []parkedCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	parked := t.parked
	t.parked, t.answered = nil, true
	return parked
}

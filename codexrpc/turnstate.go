package codexrpc

import (
	"encoding/json"
	"errors"
	"strings"
)

// errUnrouted is the error for an event that does not belong to the thread's turn.
var errUnrouted = errors.New("not an event of the turn")

// accept queues an event of the thread for its consumer. It is called by the reader.
// Errors: errUnrouted and ErrTooSlow.
func (t *Thread) accept(e *Event) error {
	switch e.Kind {
	case eventTurnStarted:
		t.begin(e.turnID)
		return nil
	case EventTurnCompleted:
		t.begin(e.turnID) // it may be the first event of the turn
	case EventError:
		if e.turnID == "" {
			e.turnID = t.turn() // the event of a warning, which names no turn
		}
	}
	if !t.mayBelong(e) {
		return errUnrouted
	}
	if e.Kind == EventTurnCompleted {
		t.conn.completed.Store(true)
		t.end(e.Status == StatusCompleted) // before the event can be taken: NextTurn may follow at once
	}
	e.own(t)
	if !t.queue.push(e) {
		return ErrTooSlow
	}
	return nil
}

// mayBelong reports whether an event may belong to the turn. Before the turn's id is
// known function calls and outputs do not: they are the echoes of injected items, which have
// another turn's id. Other events are queued, and sorted out by Recv.
func (t *Thread) mayBelong(e *Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turnID == "" {
		return e.Kind != EventFunctionCall && e.Kind != EventCallOutput && e.turnID != t.previous
	}
	return e.turnID == t.turnID
}

// owns reports whether turnID is the known id of the thread's turn.
func (t *Thread) owns(turnID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return turnID == t.turnID && turnID != ""
}

// turn returns the id of the thread's turn; empty: not known yet.
func (t *Thread) turn() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turnID
}

// sameTurn returns turnID in the thread's memory if it is the thread's, and a copy of it
// otherwise.
func (t *Thread) sameTurn(turnID string) string {
	if own := t.turn(); own == turnID {
		return own
	}
	return strings.Clone(turnID)
}

// begin sets the id of the thread's turn, if it is not known yet. It is called by the
// reader.
func (t *Thread) begin(turnID string) {
	t.mu.Lock()
	if t.turnID == "" && turnID != t.previous {
		t.turnID = strings.Clone(turnID)
	}
	t.mu.Unlock()
	t.queue.note() // queued events can be taken now
}

// end records that the turn is over, or that there will be none.
func (t *Thread) end(completed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.over, t.completed = true, completed
		close(t.ended)
	}
}

// markSent records that turn/start has been sent.
func (t *Thread) markSent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = true
}

// running reports whether a turn may be running.
func (t *Thread) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent && !t.over
}

// parkedCall is an unanswered item/tool/call request.
type parkedCall struct {
	callID  string
	request json.RawMessage // its id
}

// park keeps an item/tool/call request, which is not answered yet since an answer
// makes the model go on. It reports false if the request must be refused.
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

// parksNothing lets park refuse later requests if no request is parked. It reports false
// otherwise.
func (t *Thread) parksNothing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = t.answered || len(t.parked) == 0
	return len(t.parked) == 0
}

// unpark returns the parked requests and lets park refuse later ones.
func (t *Thread) unpark() []parkedCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	parked := t.parked
	t.parked, t.answered = nil, true
	return parked
}

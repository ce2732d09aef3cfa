package codexrpc

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// maxAbandoned bounds the table. A call with onAnswer stays registered after a timeout, for a late
// answer, unless more than maxAbandoned calls are registered.
const maxAbandoned = 1024

// callTable has a connection's calls: the waiting calls, and the abandoned calls, whose callers have left.
// A call in flight that is not urgent occupies one of maxInFlight slots.
type callTable struct {
	slots    chan struct{} // holds one element for each occupied slot
	lastID   atomic.Int64
	probeNow chan struct{} // capacity 1: an element makes Conn.Monitor probe the app-server without a pause

	mu         sync.Mutex
	err        error // why the connection ended; nil: it has not ended
	registered map[int64]*pendingCall
	timer      *time.Timer    // runs expireDue; nil before the first call
	timerAt    time.Time      // when timer fires; zero: timer does not run
	timeouts   map[string]int // for each method: how many of its calls in a row have timed out
}

func newCallTable() callTable {
	return callTable{
		slots:      make(chan struct{}, maxInFlight),
		probeNow:   make(chan struct{}, 1),
		registered: make(map[int64]*pendingCall),
		timeouts:   make(map[string]int),
	}
}

func (t *callTable) register(id int64, p *pendingCall) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	t.registered[id] = p
	t.setTimer(p.expires)
	return nil
}

// unregister removes a call that was never sent, unless a timeout has removed it already.
func (t *callTable) unregister(id int64, p *pendingCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.registered[id] == p {
		t.freeSlot(p)
		delete(t.registered, id)
	}
}

// abandon records that the caller stops waiting. It returns false if an answer or an error has already
// ended the wait; the caller then reads it from p.outcome. If timedOut is true, the slot of the call is
// freed. Otherwise the app-server still works on the call, so the call keeps its slot until the answer, at
// most for callTimeout.
func (t *callTable) abandon(id int64, p *pendingCall, timedOut bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.registered[id] != p || p.abandoned {
		return false
	}
	p.abandoned = true
	if timedOut {
		t.countTimeout(p.method)
		t.releaseAbandoned(id, p)
	} else {
		p.expires = time.Now().Add(callTimeout)
		t.setTimer(p.expires)
	}
	return true
}

// setTimer makes expireDue run at the given time or earlier. All calls share one timer: a timer for each
// would cost as much as the call itself. The caller holds the lock.
func (t *callTable) setTimer(at time.Time) {
	switch {
	case t.timer == nil:
		t.timer = time.AfterFunc(time.Until(at), t.expireDue)
	case t.timerAt.IsZero() || at.Before(t.timerAt):
		t.timer.Reset(time.Until(at))
	default:
		return
	}
	t.timerAt = at
}

// expireDue ends the wait for expired calls, and sets the timer for the next one.
func (t *callTable) expireDue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, next := time.Now(), time.Time{}
	for id, p := range t.registered {
		switch {
		case p.expires.IsZero(): // nobody waits, but a late answer may come
		case !now.Before(p.expires):
			t.expire(id, p)
		case next.IsZero() || p.expires.Before(next):
			next = p.expires
		}
	}
	t.timerAt = time.Time{}
	if !next.IsZero() {
		t.setTimer(next)
	}
}

// expire ends the wait for a call that has timed out. The caller holds the lock.
func (t *callTable) expire(id int64, p *pendingCall) {
	if !p.abandoned {
		p.abandoned = true
		t.countTimeout(p.method)
		p.outcome <- timeoutError(p.method) // never blocks: p.outcome gets only this element
	}
	t.releaseAbandoned(id, p)
}

// releaseAbandoned frees the slot of a call that nobody waits for, and removes the call if it has no
// onAnswer, which also handles a late answer, or if more than maxAbandoned calls are registered. The caller
// holds the lock.
func (t *callTable) releaseAbandoned(id int64, p *pendingCall) {
	p.expires = time.Time{}
	t.freeSlot(p)
	if p.onAnswer == nil || len(t.registered) > maxAbandoned {
		delete(t.registered, id)
	}
}

// freeSlot gives back the slot of a call, if it has one. While the call is registered, the caller holds the lock.
func (t *callTable) freeSlot(p *pendingCall) {
	if p.hasSlot {
		p.hasSlot = false
		<-t.slots // never blocks: one element is this call's
	}
}

// fail ends the wait for all calls, since the connection has ended.
func (t *callTable) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	if t.timer != nil {
		t.timer.Stop()
	}
	for _, p := range t.registered {
		if !p.abandoned {
			p.outcome <- err // never blocks: p.outcome gets only this element
		}
	}
	t.registered = nil // a nil map reads as empty; register adds nothing after the end
}

// removeAnswered removes and returns the call of an answer, or nil. late: nobody waits for it any more.
func (t *callTable) removeAnswered(idJSON string) (p *pendingCall, late bool) {
	id, err := strconv.ParseInt(idJSON, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	if p = t.registered[id]; p == nil || err != nil {
		return nil, false
	}
	delete(t.registered, id)
	delete(t.timeouts, p.method) // an answer, even a late one, ends the row of timeouts
	return p, p.abandoned
}

// countTimeout counts a call that has timed out, and requests a probe. The caller holds the lock.
func (t *callTable) countTimeout(method string) {
	t.timeouts[method]++
	select {
	case t.probeNow <- struct{}{}:
	default: // requested already
	}
}

// unansweredMethod returns a method whose last MaxUnanswered calls all timed out, or "".
func (t *callTable) unansweredMethod() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for method, n := range t.timeouts {
		if n >= MaxUnanswered {
			return method
		}
	}
	return ""
}

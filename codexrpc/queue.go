package codexrpc

import "sync"

// maxQueued bounds what one turn's queue holds, in bytes of messages. The
// reader never waits: a turn whose consumer falls further behind ends with
// ErrTooSlow, and no other turn notices.
const maxQueued = 32 << 20

// eventOverhead is what an event costs beside its message.
const eventOverhead = 200

// queue hands the events of one thread from the reader to one consumer, in
// order and in batches. Both sides only ever hold the lock for an append or a
// swap.
type queue struct {
	mu     sync.Mutex
	events []Event
	bytes  int
	err    error         // why no more events will come
	wake   chan struct{} // capacity 1: there is something to take
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// push appends an event. It reports false when that overflows the queue, once.
func (q *queue) push(e *Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return true
	}
	q.bytes += e.size + eventOverhead
	if q.bytes > maxQueued {
		q.events, q.err = nil, ErrTooSlow
		q.signal()
		return false
	}
	q.events = append(q.events, *e)
	q.signal()
	return true
}

// fail lets the consumer take what is queued and then gives it err.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.signal()
}

// drop lets go of what is queued and of all that may still come: nobody will
// take it.
func (q *queue) drop(err error) {
	q.fail(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events, q.bytes = nil, 0
}

// reset lets go of what is queued, and takes what is to come. It returns the
// queue's error instead, if it has ended.
func (q *queue) reset() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.events, q.bytes = nil, 0
	}
	return q.err
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take swaps the queued events against the consumer's spent batch. With
// nothing queued it gives the queue's error, if it has ended.
func (q *queue) take(spent []Event) ([]Event, error) {
	clear(spent) // lets go of the messages that the old events point into
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.events
	q.events, q.bytes = spent[:0], 0
	if len(batch) == 0 {
		return nil, q.err
	}
	if q.err != nil {
		q.signal() // the error is still to be taken, and one wake was for both
	}
	return batch, nil
}

// ended returns the queue's error when it has nothing left, without taking.
func (q *queue) ended() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) > 0 {
		return nil
	}
	return q.err
}

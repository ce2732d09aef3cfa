package codexrpc

import "sync"

// maxQueued bounds the messages in the queue of one turn, in bytes. The reader never
// waits: a turn whose consumer falls further behind ends with ErrTooSlow, without an
// effect on other turns.
const maxQueued = 32 << 20

// eventOverhead is the memory of an event beside its message, in bytes.
const eventOverhead = 208

// queue passes the events of one thread from the reader to one consumer, in order
// and in batches. Both hold the lock only for an append or a swap.
type queue struct {
	limit int // of bytes; maxQueued

	mu     sync.Mutex
	events []Event
	bytes  int
	err    error         // why no more events will come
	wake   chan struct{} // capacity 1: there may be something to take
}

func newQueue() *queue { return &queue{limit: maxQueued, wake: make(chan struct{}, 1)} }

// push appends an event. It reports false, once, when that overflows the queue.
func (q *queue) push(e *Event) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return true
	}
	q.bytes += e.size + eventOverhead
	if q.bytes > q.limit {
		q.events, q.err = nil, ErrTooSlow
		q.signal()
		return false
	}
	q.events = append(q.events, *e)
	q.signal()
	return true
}

// fail ends the queue with an error, which the consumer gets after the events.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.signal()
}

// drop ends the queue with an error and drops its events.
func (q *queue) drop(err error) {
	q.fail(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events, q.bytes = nil, 0
}

// reset drops the queued events. It returns the queue's error instead if the queue
// has ended.
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

// recv returns the queued events and reuses the memory of spent, the batch that
// was taken before. If there are none it returns the queue's error, if it has ended.
func (q *queue) recv(spent []Event) ([]Event, error) {
	clear(spent) // frees the messages that the old events point into
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.events
	q.events, q.bytes = spent[:0], 0
	if len(batch) == 0 {
		return nil, q.err
	}
	if q.err != nil {
		q.signal() // for the error, which is still to be taken
	}
	return batch, nil
}

// ended returns the queue's error if there are no events left.
func (q *queue) ended() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) > 0 {
		return nil
	}
	return q.err
}

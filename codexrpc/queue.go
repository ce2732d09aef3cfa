package codexrpc

import (
	"slices"
	"strings"
	"sync"
)

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
	open   bool   // the last event is a delta whose text is in text, not yet in the event
	text   []byte // of that event
	itemID string // of the last delta
	bytes  int
	err    error         // why no more events will come
	wake   chan struct{} // capacity 1: there may be something to take

	reader *wakes // of the connection; nil: consumers are woken at once
	noted  bool   // it is among the wakes; used by the reader alone
}

func newQueue(reader *wakes) *queue {
	return &queue{limit: maxQueued, wake: make(chan struct{}, 1), reader: reader}
}

// maxHeld is how many lines are read before the consumer of the first one is woken.
const maxHeld = 32

// wakes are the consumers that the reader wakes once it has read all lines that have
// arrived together: to wake one for each line costs more than to read it, and makes small
// chunks of what could be one. It is used by the reader alone.
type wakes struct {
	from   readingAhead // nil: consumers are woken at once
	queues []*queue
	lines  int // that were read since the first of them was noted
}

// lineRead wakes the consumers after a line, unless another one has arrived.
func (w *wakes) lineRead() {
	if len(w.queues) == 0 {
		return
	}
	if w.lines++; w.lines < maxHeld && w.from.HasNext() {
		return
	}
	for _, q := range w.queues {
		q.noted = false
		q.signal()
	}
	clear(w.queues)
	w.queues, w.lines = w.queues[:0], 0
}

// note wakes the consumer, at the end of the lines that have arrived. It is called by the
// reader.
func (q *queue) note() {
	switch {
	case q.reader == nil || q.reader.from == nil:
		q.signal()
	case !q.noted:
		q.noted = true
		q.reader.queues = append(q.reader.queues, q)
	}
}

// push appends an event. It reports false, once, when that overflows the queue.
func (q *queue) push(e *Event) bool {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return true
	}
	fits := q.grow(e.size + eventOverhead)
	if fits {
		q.seal()
		q.events = append(q.events, *e)
	}
	q.mu.Unlock()
	q.note() // a consumer that runs at once finds the lock free
	return fits
}

// maxJoined bounds the text of deltas that are joined, in bytes, so that no client gets a
// very long chunk.
const maxJoined = 2 << 10

// pushDelta appends a delta of a thread's turn, as push does. Deltas of one item that wait together
// become one event: a consumer that keeps up gets each, one that does not gets fewer
// instead of falling further behind.
func (q *queue) pushDelta(d *delta, threadID, turnID string) bool {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return true
	}
	joins, cost := q.joins(d, turnID), len(d.text)
	if !joins {
		cost += eventOverhead
	}
	fits := q.grow(cost)
	if fits {
		if !joins {
			q.begin(d, threadID, turnID)
		}
		q.text = append(q.text, d.text...)
	}
	q.mu.Unlock()
	if !joins || !fits { // otherwise the consumer has a signal for the event
		q.note()
	}
	return fits
}

// begin appends an event for a delta, without its text. The lock is held.
func (q *queue) begin(d *delta, threadID, turnID string) {
	q.seal()
	if q.itemID != d.itemID {
		q.itemID = strings.Clone(d.itemID)
	}
	q.events = append(q.events, Event{Kind: d.kind, Index: d.index, ItemID: q.itemID, threadID: threadID, turnID: turnID})
	q.open, q.text = true, q.text[:0]
}

// joins reports whether a delta belongs to the last event. The lock is held.
func (q *queue) joins(d *delta, turnID string) bool {
	if !q.open || len(q.text)+len(d.text) > maxJoined {
		return false
	}
	last := &q.events[len(q.events)-1]
	return last.Kind == d.kind && last.Index == d.index && last.ItemID == d.itemID && last.turnID == turnID
}

// seal ends the text of the last event. The lock is held.
func (q *queue) seal() {
	if q.open {
		q.events[len(q.events)-1].Text = string(q.text)
		q.open = false
	}
}

// grow counts more bytes. It ends the queue and reports false if they are too many. The
// lock is held.
func (q *queue) grow(n int) bool {
	q.bytes += n
	if q.bytes <= q.limit {
		return true
	}
	q.clear()
	q.err = ErrTooSlow
	return false
}

// clear drops the queued events. The lock is held.
func (q *queue) clear() { q.events, q.bytes, q.open, q.text = nil, 0, false, nil }

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
	q.clear()
}

// reset drops the queued events. It returns the queue's error instead if the queue
// has ended.
func (q *queue) reset() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.clear()
	}
	return q.err
}

// speaks reports whether the model has written something in the queued events.
func (q *queue) speaks() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.events, func(e Event) bool {
		switch e.Kind {
		case EventTextDelta, EventReasoningDelta:
			return true
		case EventItemStarted, EventItemCompleted:
			return e.ItemType == ItemAgentMessage || e.ItemType == ItemReasoning
		}
		return false
	})
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
	q.seal()
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

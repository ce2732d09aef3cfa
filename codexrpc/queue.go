package codexrpc

import (
	"slices"
	"sync"
)

// maxQueued bounds the messages in a turn's queue, in bytes. Beyond it, the turn ends with
// ErrTooSlow: the reading goroutine cannot wait for one consumer, since it reads for all turns.
const maxQueued = 32 << 20

// eventOverhead is the memory that an event needs besides its message, in bytes.
const eventOverhead = 208

// batch is memory for events. A queue borrows a batch only while it has events, since most queues
// are empty most of the time.
type batch struct {
	events []Event
	text   []byte // the text of the last event, while queue.deltaOpen is set
}

// A batch with more events or bytes of text than these is left to the garbage collector.
const (
	maxPooledEvents = 64
	maxPooledText   = 8 << 10
)

var batches = sync.Pool{New: func() any {
	return &batch{events: make([]Event, 0, 8), text: make([]byte, 0, 512)}
}}

// free puts b into the pool, for other queues, unless b is too large. b may be nil. The events must
// not be used any more.
func (b *batch) free() {
	if b == nil || cap(b.events) > maxPooledEvents || cap(b.text) > maxPooledText {
		return
	}
	clear(b.events) // so that the pool does not keep what the events point to
	b.events, b.text = b.events[:0], b.text[:0]
	batches.Put(b)
}

// queue passes the events of one thread from the goroutine that reads the connection to one
// consumer, in order and in batches. The lock is never held for long: the reader appends one event,
// and the consumer removes the whole batch.
type queue struct {
	limit int           // bound of bytes; maxQueued except in tests
	wake  chan struct{} // capacity 1: an element means that recv may return something new

	mu            sync.Mutex
	batch         *batch // nil: there are no events
	lines         int    // see [Tap]: of the last queued event
	deltaOpen     bool   // the last event is a delta whose text is still in batch.text
	consumerBatch *batch // the batch of the events that recv returned last; nil: none
	bytes         int    // the size of the queued events; at most limit
	err           error  // why no more events will come; nil: the queue has not ended

	tapLines   int       // see [Tap]: of the next event; only the goroutine that reads the connection uses it
	wakeList   *wakeList // the list of the connection
	inWakeList bool      // the queue is in wakeList.queues; only the goroutine that reads the connection uses it
}

func (q *queue) init(wakeList *wakeList) {
	q.limit, q.wake, q.wakeList = maxQueued, make(chan struct{}, 1), wakeList
}

// maxLinesBeforeWake bounds the lines that are read before the waiting consumers are woken.
const maxLinesBeforeWake = 32

// wakeList lists the queues with new events. Their consumers are woken when no further line is buffered, or
// after maxLinesBeforeWake lines. To wake them after each line would cost more than to read it, and would
// give clients many small chunks. Only the reading goroutine uses it.
type wakeList struct {
	transport readingAhead // nil: the transport does not read ahead, so consumers are woken after each line
	queues    []*queue
	lines     int // lines that were read since the first queue was added to queues
}

// lineRead is called after each line and wakes the consumers when that is due.
func (w *wakeList) lineRead() {
	if len(w.queues) == 0 {
		return
	}
	if w.lines++; w.transport != nil && w.lines < maxLinesBeforeWake && w.transport.HasNext() {
		return
	}
	for i, q := range w.queues {
		w.queues[i], q.inWakeList = nil, false
		q.signal()
	}
	w.queues, w.lines = w.queues[:0], 0
}

// scheduleWake makes lineRead wake the queue's consumer. Only the reading goroutine calls it.
func (q *queue) scheduleWake() {
	if !q.inWakeList {
		q.inWakeList = true
		q.wakeList.queues = append(q.wakeList.queues, q)
	}
}

// push appends an event. After the queue has ended, push does nothing.
func (q *queue) push(e *Event) {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return
	}
	if q.addBytes(e.size + eventOverhead) {
		q.append(e)
		q.lines = q.tapLines
	}
	q.mu.Unlock()
	q.scheduleWake() // after Unlock, so that the woken consumer finds the lock free
}

// maxJoined bounds the text of an event that is joined from several deltas, in bytes, so that no
// client gets a very long chunk because it is slow.
const maxJoined = 2 << 10

// pushDelta appends a delta of a thread's turn. If the last event in the queue is a delta of the
// same item, pushDelta joins the two, up to maxJoined bytes. So a fast consumer gets each delta,
// and a slow consumer gets fewer events and does not fall further behind.
func (q *queue) pushDelta(e *Event) {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return
	}
	joins, cost := q.canJoin(e), e.size
	if !joins {
		cost += eventOverhead
	}
	fits := q.addBytes(cost)
	if fits {
		text := e.Text // which shares the memory of the line
		if !joins {
			e.Text = ""
			q.append(e)
			q.deltaOpen, q.batch.text = true, q.batch.text[:0]
		}
		q.batch.text = append(q.batch.text, text...)
		q.lines = q.tapLines
	}
	q.mu.Unlock()
	if !joins || !fits { // otherwise the first delta of the event has already scheduled the wake
		q.scheduleWake()
	}
}

// append and the functions after it up to clear are called with the lock held.
func (q *queue) append(e *Event) {
	q.closeDelta()
	if q.batch == nil {
		q.batch = batches.Get().(*batch)
	}
	q.batch.events = append(q.batch.events, *e)
}

func (q *queue) canJoin(e *Event) bool {
	if !q.deltaOpen || len(q.batch.text)+len(e.Text) > maxJoined {
		return false
	}
	last := &q.batch.events[len(q.batch.events)-1]
	return last.Kind == e.Kind && last.Index == e.Index && last.ItemID == e.ItemID && last.turnID == e.turnID
}

// closeDelta moves the joined text of the batch to the last event.
func (q *queue) closeDelta() {
	if q.deltaOpen {
		q.batch.events[len(q.batch.events)-1].Text = string(q.batch.text)
		q.deltaOpen = false
	}
}

// addBytes adds n to the size of the queue. Above the limit, it drops the queued events, ends the queue with
// ErrTooSlow and returns false.
func (q *queue) addBytes(n int) bool {
	q.bytes += n
	if q.bytes <= q.limit {
		return true
	}
	q.clear()
	q.err = ErrTooSlow
	return false
}

func (q *queue) clear() {
	q.batch.free()
	q.batch, q.bytes, q.deltaOpen = nil, 0, false
}

// fail ends the queue, unless it has ended. The consumer gets err after the queued events.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.signal()
}

// drop ends the queue like fail, and drops its events.
func (q *queue) drop(err error) {
	q.fail(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.clear()
	q.freeConsumerBatch()
}

func (q *queue) freeConsumerBatch() {
	q.consumerBatch.free()
	q.consumerBatch = nil
}

// reset drops the queued events and returns nil. But if dropOutput is false and one of them is output of
// the model, it keeps them and returns errContinued; if the queue has ended, it returns the queue's error.
func (q *queue) reset(dropOutput bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !dropOutput && q.batch != nil && slices.ContainsFunc(q.batch.events, func(e Event) bool { return e.isModelOutput() }) {
		return errContinued
	}
	q.lines = 0
	if q.err == nil {
		q.clear()
	}
	return q.err
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// recv returns the queued events, valid until the next call, or, without events, the queue's error. lines is
// the number of lines of the thread that have been read with them, see [Tap].
func (q *queue) recv() (events []Event, lines int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closeDelta()
	q.freeConsumerBatch()
	q.consumerBatch, q.batch, q.bytes = q.batch, nil, 0
	if q.consumerBatch == nil {
		return nil, q.lines, q.err
	}
	if q.err != nil {
		q.signal() // so that the consumer calls recv again and gets the error
	}
	return q.consumerBatch.events, q.lines, nil
}

func (q *queue) errIfEmpty() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.batch != nil {
		return nil
	}
	return q.err
}

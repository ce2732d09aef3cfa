package codexrpc

import (
	"errors"
	"sync"
)

const (
	// maxOutbox bounds what calls leave to be written, in bytes: a few requests
	// of the largest size. Further calls wait for room.
	maxOutbox = 64 << 20
	// maxReplies is what answers to the app-server's own requests may add to
	// it. They cannot wait, since it is the reader that gives them, and they are
	// small: an app-server that lets so many pile up reads nothing any more.
	maxReplies = 8 << 20
)

var errOutboxFull = errors.New("the codex app-server does not read its input")

// outbox holds the messages that wait for the writer. Adding never blocks.
type outbox struct {
	wake  chan struct{} // capacity 1: there may be something to write
	limit int           // of what calls leave, in bytes

	mu       sync.Mutex
	messages [][]byte
	bytes    int           // of what is queued and what is being written
	room     chan struct{} // closed when there is more room; nil if nobody waits
	closed   bool
}

func newOutbox(limit int) *outbox { return &outbox{wake: make(chan struct{}, 1), limit: limit} }

// offer queues a call's message if there is room for it. Otherwise it returns
// a channel that is closed once it is worth another try. A message above the
// bound gets the outbox to itself.
func (o *outbox) offer(message []byte) (full <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes > 0 && o.bytes+len(message) > o.limit {
		if o.room == nil {
			o.room = make(chan struct{})
		}
		return o.room
	}
	o.append(message)
	return nil
}

// reply queues an answer to the app-server, or says that it reads none.
func (o *outbox) reply(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bytes+len(message) > max(o.limit, o.largest())+maxReplies {
		return errOutboxFull
	}
	o.append(message)
	return nil
}

// largest is the size of the message at the head, which may be above the bound
// by itself.
func (o *outbox) largest() int {
	if len(o.messages) == 0 {
		return 0
	}
	return len(o.messages[0])
}

func (o *outbox) append(message []byte) {
	if o.closed {
		return // nobody will write it
	}
	o.messages = append(o.messages, message)
	o.bytes += len(message)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// next returns the message to be written now. It counts as queued until it is
// passed to written.
func (o *outbox) next() (message []byte, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.messages) == 0 {
		return nil, false
	}
	return o.messages[0], true
}

// written lets go of the message that next returned.
func (o *outbox) written() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= len(o.messages[0])
	o.messages[0] = nil
	if o.messages = o.messages[1:]; len(o.messages) == 0 {
		o.messages = nil
	}
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}

// close drops what is queued and all that comes later.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages, o.bytes, o.closed = nil, 0, true
}

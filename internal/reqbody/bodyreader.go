package reqbody

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MinRate is the least average rate of a body, in bytes a second, see bodyReader.
	MinRate = 1 << 10
	// maxSilence is how long a client may send nothing if it was fast enough before.
	maxSilence = 15 * time.Second
	// MaxTime is how long a body may take in all. OpenAI's clients wait no longer for an answer.
	MaxTime = 10 * time.Minute
	// minCheckInterval is the least time between two checks of the bodies that are being read.
	// Without it, each byte of a slow client could cause a check, since a byte gives the client
	// only 1/MinRate seconds more (see bodyReader).
	minCheckInterval = 100 * time.Millisecond
)

// bodyReader reads a body that must come at MinRate. At first the client has maxSilence to send
// bytes. Each byte adds 1/MinRate seconds to this time, but the client never has more than
// maxSilence left. So a body may come in bursts.
//
// Other goroutines may call abort, which sets a deadline with the response writer. No deadline must
// be set after the handler has returned: over HTTP/2 this would crash the process, and over HTTP/1
// the deadline would apply to the next request of the connection. So the writer is used only while
// mu is locked, and never after close.
type bodyReader struct {
	body        io.Reader
	watchdog    *watchdog
	deadline    atomic.Int64  // when the client's time ends, on the clock of watchdog.now
	maxDeadline time.Duration // the largest value of deadline

	mu         sync.Mutex
	controller http.ResponseController // not used after close
	closed     bool
	aborted    bool // abort was called before close
}

// newBodyReader returns a reader that the watchdog watches. The time of the client starts now.
func newBodyReader(w http.ResponseWriter, body io.Reader, watchdog *watchdog) *bodyReader {
	now := watchdog.now()
	r := &bodyReader{body: body, watchdog: watchdog, maxDeadline: now + MaxTime, controller: *http.NewResponseController(w)}
	r.deadline.Store(int64(now + maxSilence))
	watchdog.add(r)
	return r
}

// Read reads from the body.
func (r *bodyReader) Read(buf []byte) (int, error) {
	n, err := r.body.Read(buf)
	if n > 0 {
		added := time.Duration(r.deadline.Load()) + time.Duration(n)*time.Second/MinRate
		r.deadline.Store(int64(min(added, r.watchdog.now()+maxSilence, r.maxDeadline)))
	}
	return n, err
}

// abort makes reads from the connection fail. After close, it does nothing.
func (r *bodyReader) abort() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.aborted = true
		// The error is ignored: a writer without deadlines does not write to a connection, so there
		// is no client that can be slow.
		_ = r.controller.SetReadDeadline(time.Now())
	}
}

// close waits for a running abort, and prevents later ones. It reports whether the reader was
// aborted. If so, the connection cannot be used any more, even if the body was complete just before
// the abort.
func (r *bodyReader) close() (aborted bool) {
	r.watchdog.remove(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.aborted
}

// watchdog aborts the readers whose clients are too slow. One timer checks all readers, so a body
// that comes together with its request needs no timer of its own. The timer fires when the first
// client may have run out of time, but at most once every minCheckInterval.
type watchdog struct {
	start time.Time

	mu        sync.Mutex
	readers   map[*bodyReader]struct{}
	timer     *time.Timer // nil: there was no reader yet
	timerRuns bool
}

func newWatchdog() *watchdog {
	return &watchdog{start: time.Now(), readers: make(map[*bodyReader]struct{})}
}

// now returns the time since start. The deadlines of readers are on this clock.
func (w *watchdog) now() time.Duration { return time.Since(w.start) }

// add begins to watch a reader. The client has at least maxSilence to send bytes.
func (w *watchdog) add(r *bodyReader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers[r] = struct{}{}
	w.startTimer(maxSilence)
}

// remove ends the watch of a reader.
func (w *watchdog) remove(r *bodyReader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.readers, r)
}

// startTimer starts the timer, unless it runs already. The caller holds the lock.
func (w *watchdog) startTimer(after time.Duration) {
	switch {
	case w.timerRuns:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(after, w.abortSlow)
	default:
		w.timer.Reset(after)
	}
	w.timerRuns = true
}

// abortSlow aborts the readers whose clients have run out of time, and starts the timer for the
// others.
func (w *watchdog) abortSlow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timerRuns = false
	now, next := w.now(), MaxTime
	for r := range w.readers {
		left := time.Duration(r.deadline.Load()) - now
		if left > 0 {
			next = min(next, left)
			continue
		}
		delete(w.readers, r)
		go r.abort() // abort may wait for the connection, so it runs in a goroutine; close waits for abort
	}
	if len(w.readers) > 0 {
		w.startTimer(max(next, minCheckInterval))
	}
}

package sse

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// watch bounds the time of each write. If each write set and cleared a deadline, that would cost
// more than writing a small frame. So a write only records when it began. A timer checks, after the
// limit, whether a write is in progress and for how long. If the write has time left, the timer
// checks again when this time is over. A write that takes too long gets a deadline in the past,
// which ends it.
//
// A response writer must not be used after its handler has returned. So the timer uses it only
// while a write is in progress.
type watch struct {
	limit time.Duration
	rc    http.ResponseController // of the server's own response writer

	mu    sync.Mutex
	timer *time.Timer // nil: there was no write yet
	set   bool        // the timer runs
	since time.Time   // when the write in progress began; zero: there is none
	used  bool        // there was a write since the timer was set
	cut   bool        // a write took too long
}

// begin is called before a write.
func (w *watch) begin(now time.Time) {
	if w.limit <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.used = now, true
	switch {
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, w.look)
	case !w.set:
		w.timer.Reset(w.limit)
	}
	w.set = true
}

// end is called after a write. It reports whether the write took too long. If so, the connection
// cannot be used any more, even if the write was complete.
func (w *watch) end() (cut bool) {
	if w.limit <= 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
	return w.cut
}

// stop stops the timer. It is called while no write is in progress.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set {
		w.set = !w.timer.Stop()
	}
}

// look cuts the write in progress if it has taken too long. If there was no write since the timer
// was set, the timer is not set again.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = false
	next := w.limit
	switch {
	case !w.since.IsZero():
		if next = w.limit - time.Since(w.since); next <= 0 {
			if errors.Is(w.rc.SetWriteDeadline(time.Now().Add(-time.Second)), http.ErrNotSupported) {
				return // a response writer without deadlines cannot be cut
			}
			w.cut, next = true, time.Second // cut the write again in a second, in case another deadline has replaced this one
		}
	case !w.used:
		return
	}
	w.set, w.used = true, false
	w.timer.Reset(next)
}

// begin begins a write.
func (w *Writer) begin() {
	w.lastSent = time.Now()
	w.watch.begin(w.lastSent)
}

// end ends a write.
func (w *Writer) end() {
	if w.watch.end() && !errors.Is(w.err, ErrStalled) {
		w.err = nil
		w.fail("write", os.ErrDeadlineExceeded)
	}
}

// setDeadline sets the deadline of the next writes, or clears it if at is zero.
func (w *Writer) setDeadline(at time.Time) {
	if err := w.watch.rc.SetWriteDeadline(at); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.fail("set the write deadline", err)
	}
}

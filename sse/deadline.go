package sse

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"
)

// writeWatchdog bounds the time of each write. To set and clear a deadline for each write would cost more.
// So a write only records when it began. A timer checks later whether the write is still in progress after
// the limit, and then gives it a deadline in the past. The timer uses the response writer only during a
// write, since a response writer must not be used after its handler has returned.
type writeWatchdog struct {
	limit      time.Duration
	controller http.ResponseController // of the server's own response writer

	mu            sync.Mutex
	timer         *time.Timer // nil: there was no write yet
	timerRunning  bool        // the timer is set
	writeStart    time.Time   // when the write in progress began; zero: there is none
	wroteSinceSet bool        // a write began since the timer was set, so check sets the timer again
	timedOut      bool        // a write took too long
}

func (w *writeWatchdog) beginWrite(now time.Time) {
	if w.limit <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeStart, w.wroteSinceSet = now, true
	switch {
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, w.check)
	case !w.timerRunning:
		w.timer.Reset(w.limit)
	}
	w.timerRunning = true
}

// endWrite is called after a write. If a write took too long, even if it was complete, timedOut is true:
// the connection cannot be used any more.
func (w *writeWatchdog) endWrite() (timedOut bool) {
	if w.limit <= 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeStart = time.Time{}
	return w.timedOut
}

// stop stops the timer. It is called while no write is in progress.
func (w *writeWatchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timerRunning {
		w.timerRunning = !w.timer.Stop()
	}
}

// check ends the write in progress if it has taken too long. If there was no write since the timer
// was set, the timer is not set again.
func (w *writeWatchdog) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timerRunning = false
	next := w.limit
	switch {
	case !w.writeStart.IsZero():
		if next = w.limit - time.Since(w.writeStart); next <= 0 {
			if errors.Is(w.controller.SetWriteDeadline(time.Now().Add(-time.Second)), http.ErrNotSupported) {
				return // without deadlines, the write cannot be ended
			}
			w.timedOut, next = true, time.Second // set the deadline again in a second, in case it was replaced
		}
	case !w.wroteSinceSet:
		return
	}
	w.timerRunning, w.wroteSinceSet = true, false
	w.timer.Reset(next)
}

func (w *Writer) beginWrite() {
	w.lastSent = time.Now()
	w.watchdog.beginWrite(w.lastSent)
}

// endWrite is called after a write, and fails the Writer if the write took too long.
func (w *Writer) endWrite() {
	if w.watchdog.endWrite() && !errors.Is(w.err, ErrStalled) {
		w.err = nil // the watchdog's deadline has caused this error, if there is one
		w.fail("write", os.ErrDeadlineExceeded)
	}
}

// setDeadline sets the deadline of the next writes. The zero time means that they have none.
func (w *Writer) setDeadline(deadline time.Time) {
	if err := w.watchdog.controller.SetWriteDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.fail("set the write deadline", err)
	}
}

package sse

import (
	"errors"
	"net/http"
	"time"
)

// arm sets the deadline of the next write.
func (w *Writer) arm() {
	if w.noLimit || w.err != nil {
		return
	}
	deadline := time.Now().Add(w.opts.WriteTimeout)
	err := w.rc.SetWriteDeadline(deadline)
	switch {
	case errors.Is(err, http.ErrNotSupported):
		w.noLimit = true
	case err != nil:
		w.fail("set the write deadline", err)
	default:
		w.deadline = deadline
	}
}

// disarm clears the deadline. An HTTP/2 stream is reset when its deadline passes,
// even without a write in progress, and on HTTP/1 the deadline would also apply to
// the next response on the connection.
func (w *Writer) disarm() {
	if w.deadline.IsZero() {
		return
	}
	w.deadline = time.Time{}
	if err := w.rc.SetWriteDeadline(time.Time{}); err != nil && w.err == nil {
		w.fail("clear the write deadline", err)
	}
}

package sse

import (
	"math"
	"time"
)

// Never is the time until a keepalive that is not due at all. It is valid for a
// timer.
const Never = time.Duration(math.MaxInt64)

// keepaliveText is the text of the comment that keeps idle connections open.
const keepaliveText = "keepalive"

// NextKeepalive returns the time until a keepalive is due if nothing else is sent.
// It is zero if one is due already, and [Never] if keepalives are off or the
// stream has failed or is closed.
func (w *Writer) NextKeepalive() time.Duration {
	if w.opts.Keepalive <= 0 || w.err != nil {
		return Never
	}
	return max(0, w.opts.Keepalive-time.Since(w.lastSent))
}

// Keepalive sends the comment ": keepalive" if nothing has been sent for the
// interval of the options, and returns the time until it should be called again.
// Buffered frames are sent instead of the comment. The error is that of
// [Writer.Flush].
//
// It is meant for a loop with a timer beside its source of events:
//
//	timer := time.NewTimer(w.NextKeepalive())
//	defer timer.Stop()
//	for {
//		select {
//		case e := <-events:
//			// write e and flush; the timer may run on
//		case <-timer.C:
//			next, err := w.Keepalive()
//			if err != nil {
//				return err
//			}
//			timer.Reset(next)
//		}
//	}
func (w *Writer) Keepalive() (next time.Duration, err error) {
	if w.err != nil {
		return Never, w.err
	}
	if wait := w.NextKeepalive(); wait > 0 {
		return wait, nil
	}
	if len(w.buf) == 0 {
		if err := w.WriteComment(keepaliveText); err != nil {
			return Never, err
		}
	}
	if err := w.Flush(); err != nil {
		return Never, err
	}
	return w.NextKeepalive(), nil
}

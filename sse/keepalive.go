package sse

import (
	"math"
	"time"
)

// Never is the time until a keepalive that will not come. A timer takes it.
const Never = time.Duration(math.MaxInt64)

// keepaliveText is the comment that keeps idle connections open.
const keepaliveText = "keepalive"

// NextKeepalive returns how long from now a keepalive will be due if nothing
// else is sent: zero if it is due already, [Never] if keepalives are off or the
// stream has failed or is closed.
func (w *Writer) NextKeepalive() time.Duration {
	if w.opts.Keepalive <= 0 || w.err != nil {
		return Never
	}
	return max(0, w.opts.Keepalive-time.Since(w.lastSent))
}

// Keepalive sends the comment ": keepalive" if nothing has been sent for the
// interval of the options, and returns when to call it again. Frames that wait
// for a flush are sent instead of the comment. The error is that of
// [Writer.Flush].
//
// It fits a loop that has a timer beside its source of events:
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

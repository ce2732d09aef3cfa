package reqbody

import (
	"context"
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
	// minCheckInterval is the least time between two checks of a body. Without it, each byte of a slow
	// client could cause a check, since a byte gives only 1/MinRate seconds more (see bodyReader).
	minCheckInterval = 100 * time.Millisecond
)

// bodyReader reads a body that must come at MinRate. At first the client has maxSilence to send bytes.
// Each byte gives the client 1/MinRate seconds more, but the client never has more than maxSilence from
// now on. So a body may come in bursts.
//
// A slow body is ended by a deadline of the response writer. No deadline must be set after the handler
// has returned: over HTTP/2 this would crash the process, over HTTP/1 the deadline would apply to the
// connection's next request. So the writer is used only while mu is locked, and never after close.
type bodyReader struct {
	body     io.Reader
	start    time.Time
	deadline atomic.Int64 // when the client's time ends, in nanoseconds since start

	mu         sync.Mutex
	ctx        context.Context
	controller http.ResponseController
	closed     bool
	aborted    bool        // a deadline was set
	timer      *time.Timer // calls check
}

// newBodyReader begins to read a body. The client's time starts now. When ctx ends, check ends the body.
func newBodyReader(ctx context.Context, w http.ResponseWriter, body io.Reader) *bodyReader {
	r := &bodyReader{body: body, ctx: ctx, controller: *http.NewResponseController(w), start: time.Now()}
	r.deadline.Store(int64(maxSilence))
	r.mu.Lock() // check uses the timer
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(maxSilence, r.check)
	return r
}

// Read reads from the body. Each byte gives the client more time.
func (r *bodyReader) Read(buf []byte) (int, error) {
	n, err := r.body.Read(buf)
	if n > 0 {
		added := time.Duration(r.deadline.Load()) + time.Duration(n)*time.Second/MinRate
		r.deadline.Store(int64(min(added, time.Since(r.start)+maxSilence, MaxTime)))
	}
	return n, err
}

// check makes reads from the connection fail if the client's time is over or ctx has ended. Otherwise
// the timer calls check again at the time when the client's time is now expected to be over.
func (r *bodyReader) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if left := time.Duration(r.deadline.Load()) - time.Since(r.start); left > 0 && r.ctx.Err() == nil {
		r.timer.Reset(max(left, minCheckInterval))
		return
	}
	r.aborted = true
	// The error is ignored: a writer without deadlines has no connection, so no client can be slow.
	_ = r.controller.SetReadDeadline(time.Now())
}

// close waits for a running check, and prevents later checks. aborted says that check has set a
// deadline: the connection is then unusable, even if the body was complete just before.
func (r *bodyReader) close() (aborted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.Stop()
	r.closed = true
	return r.aborted
}

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
	// minCheckInterval is the least time between two checks of a body: each byte gives a slow
	// client only 1/MinRate seconds more (see bodyReader), and could cause a check.
	minCheckInterval = 100 * time.Millisecond
)

// bodyReader reads a body that must come at MinRate. At first the client has maxSilence to send
// bytes. Each gives it 1/MinRate seconds more, up to maxSilence. So a body may come in bursts.
//
// A slow body is ended by a deadline of the response writer. None must be set after the handler has
// returned: over HTTP/2 this would crash the process, over HTTP/1 it would apply to the
// connection's next request. So the writer is used only while mu is locked, and never after close.
type bodyReader struct {
	body     io.Reader
	start    time.Time
	deadline atomic.Int64 // when the client's time ends, in nanoseconds since start

	mu         sync.Mutex
	ctx        context.Context
	controller http.ResponseController
	open       bool // between begin and close
	aborted    bool // a deadline was set

	// timer calls checkFunc, which is check. Both are made once for many bodies: a late call of an
	// earlier one does no harm.
	timer     *time.Timer
	checkFunc func()
}

// begin begins to read a body. The time of the client starts now. The body is ended when ctx ends.
func (r *bodyReader) begin(ctx context.Context, w http.ResponseWriter, body io.Reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body, r.ctx, r.controller, r.open, r.aborted = body, ctx, *http.NewResponseController(w), true, false
	r.start = time.Now()
	r.deadline.Store(int64(maxSilence))
	if r.timer != nil {
		r.timer.Reset(maxSilence)
		return
	}
	r.checkFunc = r.check
	r.timer = time.AfterFunc(maxSilence, r.checkFunc)
}

// Read reads from the body.
func (r *bodyReader) Read(buf []byte) (int, error) {
	n, err := r.body.Read(buf)
	if n > 0 {
		added := time.Duration(r.deadline.Load()) + time.Duration(n)*time.Second/MinRate
		r.deadline.Store(int64(min(added, time.Since(r.start)+maxSilence, MaxTime)))
	}
	return n, err
}

// check makes reads from the connection fail if the client's time is over or ctx has ended.
// Otherwise it looks again when the client's time may be over.
func (r *bodyReader) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
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

// close waits for a running check, prevents later ones, and reports whether the reader was aborted.
// If so, the connection is unusable, even if the body was complete just before.
func (r *bodyReader) close() (aborted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.Stop()
	r.open, r.body, r.ctx, r.controller = false, nil, nil, http.ResponseController{}
	return r.aborted
}

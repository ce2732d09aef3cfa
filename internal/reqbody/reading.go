package reqbody

import (
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// MinRate is the rate at which a body must come, in bytes a second.
	MinRate = 1 << 10
	// paceGrace is how long a client may be silent that was faster before.
	paceGrace = 15 * time.Second
	// MaxTime is how long a body may take in all: OpenAI's clients wait no longer for an answer.
	MaxTime = 10 * time.Minute
)

// reading reads a body that must come at a rate. A client begins with paceGrace; each byte
// adds time, up to paceGrace again, so that a body may come in bursts.
//
// Other goroutines may cut it. A response writer must not be used once its handler has
// returned: over HTTP/2 that crashes the process, and over HTTP/1 the deadline would hit the
// next request of the connection. So the writer is used under the lock only, and never after
// close.
type reading struct {
	body  io.Reader
	timer *time.Timer
	last  time.Time // no byte adds time beyond this

	mu         sync.Mutex
	due        time.Time               // when the time of the client has passed
	controller http.ResponseController // not used after close
	closed     bool
	wasCut     bool // before close
}

// newReading starts the time of the client.
func newReading(w http.ResponseWriter, body io.Reader) *reading {
	now := time.Now()
	r := &reading{body: body, last: now.Add(MaxTime), due: now.Add(paceGrace), controller: *http.NewResponseController(w)}
	r.mu.Lock() // until there is a timer
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(paceGrace, r.ring)
	return r
}

// Read reads from the body.
func (r *reading) Read(to []byte) (int, error) {
	n, err := r.body.Read(to)
	if n > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.due = r.due.Add(time.Duration(n) * time.Second / MinRate)
		for _, most := range []time.Time{time.Now().Add(paceGrace), r.last} {
			if r.due.After(most) {
				r.due = most
			}
		}
	}
	return n, err
}

// ring cuts the reading if its time has passed, or waits for what bytes have added to it.
func (r *reading) ring() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := time.Until(r.due); left > 0 && !r.closed {
		r.timer.Reset(left)
		return
	}
	r.cutLocked()
}

// cut ends the reading, unless close was called.
func (r *reading) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutLocked()
}

func (r *reading) cutLocked() {
	if !r.closed {
		r.wasCut = true
		// A writer without deadlines has a client that cannot be slow.
		_ = r.controller.SetReadDeadline(time.Now())
	}
}

// close waits for a running cut and makes later ones do nothing. It reports whether there
// was one: then the connection is of no more use, even if the body was complete just before.
func (r *reading) close() (wasCut bool) {
	r.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.wasCut
}

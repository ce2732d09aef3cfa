package reqbody

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MinRate is the rate at which a body must come, in bytes a second.
	MinRate = 1 << 10
	// paceGrace is the longest that a client may be silent, if it was fast enough before.
	paceGrace = 15 * time.Second
	// MaxTime is how long a body may take in all: OpenAI's clients wait no longer for an answer.
	MaxTime = 10 * time.Minute
	// paceStep is the least time between two checks of the bodies that are being read. Without
	// paceStep, each byte of a slow client could cause a check, since each byte gives the client
	// only 1/MinRate seconds more (see reading).
	paceStep = 100 * time.Millisecond
)

// reading reads a body that must come at MinRate. At first the client has paceGrace to send bytes.
// Each byte adds 1/MinRate seconds to its time, but the client never has more than paceGrace left.
// So a body may come in bursts.
//
// Other goroutines may call cut, which sets a deadline with the response writer. No deadline must
// be set after the handler has returned: over HTTP/2 this would crash the process, and over HTTP/1
// the deadline would hit the next request of the connection. So the writer is used only while mu is
// locked, and never after close.
type reading struct {
	body io.Reader
	pace *pace
	due  atomic.Int64  // when the client has run out of time, on the clock of pace
	last time.Duration // no byte adds time beyond this

	mu         sync.Mutex
	controller http.ResponseController // not used after close
	closed     bool
	wasCut     bool // before close
}

// newReading starts the time of the client.
func newReading(w http.ResponseWriter, body io.Reader, p *pace) *reading {
	now := p.now()
	r := &reading{body: body, pace: p, last: now + MaxTime, controller: *http.NewResponseController(w)}
	r.due.Store(int64(now + paceGrace))
	p.add(r)
	return r
}

// Read reads from the body.
func (r *reading) Read(to []byte) (int, error) {
	n, err := r.body.Read(to)
	if n > 0 {
		added := time.Duration(r.due.Load()) + time.Duration(n)*time.Second/MinRate
		r.due.Store(int64(min(added, r.pace.now()+paceGrace, r.last)))
	}
	return n, err
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

// close waits for a running cut and makes later cuts do nothing. It reports whether the reading was
// cut. If so, the connection cannot be used any more, even if the body was complete just before the
// cut.
func (r *reading) close() (wasCut bool) {
	r.pace.remove(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.wasCut
}

// pace cuts the readings whose clients are too slow. One timer checks all readings: when the first
// client may have run out of time, but at most once every paceStep. So a body that comes together
// with its request needs no timer of its own.
type pace struct {
	start time.Time

	mu    sync.Mutex
	all   map[*reading]struct{}
	timer *time.Timer // nil: there was no reading yet
	set   bool        // the timer runs
}

func newPace() *pace { return &pace{start: time.Now(), all: make(map[*reading]struct{})} }

// now returns the time since start. The fields due and last of a reading are on this clock.
func (p *pace) now() time.Duration { return time.Since(p.start) }

// add begins to watch a reading. The client has at least paceGrace to send bytes.
func (p *pace) add(r *reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[r] = struct{}{}
	p.ringIn(paceGrace)
}

// remove ends the watch of a reading.
func (p *pace) remove(r *reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, r)
}

// ringIn starts the timer, unless it runs. The lock is held.
func (p *pace) ringIn(after time.Duration) {
	switch {
	case p.set:
		return
	case p.timer == nil:
		p.timer = time.AfterFunc(after, p.ring)
	default:
		p.timer.Reset(after)
	}
	p.set = true
}

// ring cuts the readings whose clients have run out of time, and starts the timer for the next
// reading.
func (p *pace) ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set = false
	now, next := p.now(), MaxTime
	for r := range p.all {
		left := time.Duration(r.due.Load()) - now
		if left > 0 {
			next = min(next, left)
			continue
		}
		delete(p.all, r)
		go r.cut() // in a goroutine, since cut may wait for the connection; close waits for cut
	}
	if len(p.all) > 0 {
		p.ringIn(max(next, paceStep))
	}
}

package simulation

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe moves bytes one way, with a buffer. Every wait in it is one that a bubble
// of synctest knows.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	room    int        // of the buffer; 0: without bound
	most    func() int // bytes for the next read; nil: all that are there

	ended    error // of the reader, once buf is empty; nil: it goes on
	refused  error // of the writer; nil: it takes more
	heldRead bool  // the reader is not served
	heldWrit bool  // the writer is not served

	readBy, writeBy deadline
}

func newPipe(room int) *pipe {
	p := &pipe{room: room}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// deadline is when waits end.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set changes a deadline and wakes who waits.
func (p *pipe) set(d *deadline, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = at
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, p.wake)
	}
	p.changed.Broadcast()
}

func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

// Read reads what is there, and waits if nothing is.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.ended == syscall.ECONNRESET:
			return 0, p.ended
		case p.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case p.heldRead:
		case len(p.buf) > 0 && len(b) > 0:
			return p.take(b)
		case p.ended != nil:
			return 0, p.ended
		case len(b) == 0:
			return 0, nil
		}
		p.changed.Wait()
	}
}

// take reads from the buffer. The lock is held.
func (p *pipe) take(b []byte) (int, error) {
	n := min(len(b), len(p.buf))
	if p.most != nil {
		n = min(n, max(1, p.most()))
	}
	n = copy(b, p.buf[:n])
	p.buf = p.buf[n:]
	p.changed.Broadcast()
	return n, nil
}

// Write writes all of b, or as much as the other side takes.
func (p *pipe) Write(b []byte) (written int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.refused != nil:
			return written, p.refused
		case p.writeBy.passed():
			return written, os.ErrDeadlineExceeded
		case len(b) == 0:
			return written, nil
		case p.heldWrit:
		case p.room == 0 || len(p.buf) < p.room:
			n := len(b)
			if p.room > 0 {
				n = min(n, p.room-len(p.buf))
			}
			p.buf = append(p.buf, b[:n]...)
			b, written = b[n:], written+n
			p.changed.Broadcast()
			continue
		}
		p.changed.Wait()
	}
}

// end lets the reader have what is there, and then err; the writer gets EPIPE.
func (p *pipe) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = err
	}
	if p.refused == nil {
		p.refused = syscall.EPIPE
	}
	p.changed.Broadcast()
}

// cut ends both sides at once; what is on its way is lost but for keep bytes.
func (p *pipe) cut(err error, keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf = p.buf[:min(len(p.buf), keep)]
	p.ended, p.refused = err, syscall.EPIPE
	p.heldRead, p.heldWrit = false, false
	p.changed.Broadcast()
}

// hold stops serving the reader and the writer, or goes on with it.
func (p *pipe) hold(read, write bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldRead, p.heldWrit = read, write
	p.changed.Broadcast()
}

// reader and writer are the ends of a pipe that has no other use.
type reader struct{ *pipe }

// Close ends the reading: the writer hears of it.
func (r reader) Close() error {
	r.cut(io.ErrClosedPipe, 0)
	return nil
}

// SetReadDeadline bounds the reading.
func (r reader) SetReadDeadline(at time.Time) error {
	r.set(&r.readBy, at)
	return nil
}

type writer struct{ *pipe }

// Close ends the writing: the reader gets what is there and then the end.
func (w writer) Close() error {
	w.end(io.EOF)
	return nil
}

// SetWriteDeadline bounds the writing.
func (w writer) SetWriteDeadline(at time.Time) error {
	w.set(&w.writeBy, at)
	return nil
}

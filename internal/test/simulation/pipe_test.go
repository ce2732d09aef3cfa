package simulation

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe transfers bytes one way, buffered. Its waits durably block in a synctest bubble.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	room    int        // size of the buffer; 0 for no limit
	most    func() int // maximum bytes of the next read; nil for no limit

	ended    error // error of the reader once buf is empty, if not nil
	refused  error // error of the writer, if not nil
	heldRead bool  // the reader is blocked
	heldWrit bool  // the writer is blocked

	readBy, writeBy deadline
}

func newPipe(room int) *pipe {
	p := &pipe{room: room}
	p.changed = sync.NewCond(&p.mu)
	return p
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// set changes a deadline and wakes the waiting goroutines.
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

// Read reads buffered bytes, and waits if there are none.
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

// take reads from the buffer. The caller holds the lock.
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

// Write writes b. It waits while the buffer is full.
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

// end makes the reader get the buffered bytes and then err, and the writer EPIPE.
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

// cut ends both sides at once. Buffered bytes after the first keep are lost.
func (p *pipe) cut(err error, keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf = p.buf[:min(len(p.buf), keep)]
	p.ended, p.refused = err, syscall.EPIPE
	p.heldRead, p.heldWrit = false, false
	p.changed.Broadcast()
}

// hold blocks or unblocks the reader and the writer.
func (p *pipe) hold(read, write bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldRead, p.heldWrit = read, write
	p.changed.Broadcast()
}

// reader and writer are the ends of a pipe.
type reader struct{ *pipe }

// Close closes the reading end, so that writes fail.
func (r reader) Close() error {
	r.cut(io.ErrClosedPipe, 0)
	return nil
}

// SetReadDeadline sets the deadline of reads.
func (r reader) SetReadDeadline(at time.Time) error {
	r.set(&r.readBy, at)
	return nil
}

type writer struct{ *pipe }

// Close closes the writing end. The reader gets the buffered bytes and then EOF.
func (w writer) Close() error {
	w.end(io.EOF)
	return nil
}

// SetWriteDeadline sets the deadline of writes.
func (w writer) SetWriteDeadline(at time.Time) error {
	w.set(&w.writeBy, at)
	return nil
}

package sse

import (
	"bytes"
	"io"
	"strings"
	"time"
)

// byteOrderMark may stand once, at the very beginning of a stream.
const byteOrderMark = "\uFEFF"

// DefaultMaxEvent is the limit of a [Reader] that was given none, in bytes.
const DefaultMaxEvent = 1 << 20

// Reader takes a stream of server-sent events apart. It needs no more of the
// stream than is there: an event is returned as soon as the line that ends it
// is known to be over. A Reader must not be used by several goroutines at once.
type Reader struct {
	r     io.Reader
	limit int

	store   []byte
	chunk   []byte // the part of store that nobody has looked at
	line    []byte // the begun line
	skipLF  bool   // the last line ended with CR: an LF now belongs to it
	begun   bool   // the first line is over: no byte order mark any more
	event   pending
	readErr error // what r said along with the last chunk
	err     error
}

// NewReader returns a Reader of r. A line, and the data of an event, may have
// maxEvent bytes; zero or less stands for [DefaultMaxEvent].
func NewReader(r io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Reader{r: r, limit: maxEvent, store: make([]byte, bufferSize)}
}

// OnComment makes the Reader call f with each comment, without the colon and a
// space after it, from within [Reader.Next]. Call it before the first Next.
func (r *Reader) OnComment(f func(text string)) {
	r.event.comment = f
}

// Retry returns the reconnection time that the stream last asked for, zero if
// it has not.
func (r *Reader) Retry() time.Duration {
	return r.event.retry
}

// Next returns the next event. At the end of the stream the error is [io.EOF];
// it is [io.ErrUnexpectedEOF] if the stream ends within an event, which is then
// dropped as the standard says; [ErrTooLarge] for an event above the limit; else
// that of the underlying reader. An error is final.
func (r *Reader) Next() (Event, error) {
	for r.err == nil {
		if len(r.chunk) == 0 {
			r.fill()
			continue
		}
		if !r.takeLine() {
			continue
		}
		if e, ok := r.endLine(); ok {
			return e, nil
		}
	}
	return Event{}, r.err
}

// fill reads the next chunk, or ends the stream if the last one came with an
// error.
func (r *Reader) fill() {
	if r.readErr == nil {
		var n int
		n, r.readErr = r.r.Read(r.store)
		r.chunk = r.store[:n]
		return
	}
	r.err = r.readErr
	if r.err == io.EOF && (len(r.line) > 0 || len(r.event.data) > 0 || r.event.typ != "") {
		r.err = io.ErrUnexpectedEOF
	}
}

// takeLine moves bytes of the chunk to the line and reports whether the line is
// complete.
func (r *Reader) takeLine() bool {
	if r.skipLF {
		r.skipLF = false
		if r.chunk[0] == '\n' {
			r.chunk = r.chunk[1:]
			return false
		}
	}
	end := lineBreak(r.chunk)
	part := r.chunk
	if end >= 0 {
		part = r.chunk[:end]
	}
	if len(r.line)+len(part) > r.limit {
		r.err = ErrTooLarge
		return false
	}
	r.line = append(r.line, part...)
	if end < 0 {
		r.chunk = nil
		return false
	}
	r.skipLF = r.chunk[end] == '\r'
	r.chunk = r.chunk[end+1:]
	return true
}

// endLine interprets the complete line and returns the event that it ends.
func (r *Reader) endLine() (e Event, ok bool) {
	line := r.line
	r.line = r.line[:0]
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	if len(line) == 0 {
		return r.event.dispatch()
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	r.field(name, value)
	return Event{}, false
}

// field applies one field to the pending event. A line that begins with a colon
// is a comment, and unknown fields are ignored.
func (r *Reader) field(name, value []byte) {
	p := &r.event
	switch string(name) {
	case "":
		if p.comment != nil {
			p.comment(string(value))
		}
	case "event":
		p.typ = string(value)
	case "data":
		if len(p.data)+len(value) > r.limit {
			r.err = ErrTooLarge
			return
		}
		p.data = append(append(p.data, value...), '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.lastID = string(value)
		}
	case "retry":
		if ms, ok := milliseconds(string(value)); ok {
			p.retry = ms
		}
	}
}

// milliseconds reads a retry value: ASCII digits and nothing else. More digits
// than make sense are refused, lest they overflow.
func milliseconds(digits string) (time.Duration, bool) {
	const maxDigits = 12
	if digits == "" || len(digits) > maxDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	var ms time.Duration
	for _, d := range []byte(digits) {
		ms = ms*10 + time.Duration(d-'0')
	}
	return ms * time.Millisecond, true
}

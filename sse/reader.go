package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// ErrEventTooLarge is the error of a [Reader] for an event above [ReaderOptions.MaxEvent].
var ErrEventTooLarge = errors.New("sse: the event is too large")

// maxEvent is the default of [ReaderOptions.MaxEvent].
const maxEvent = 64 << 20

// Event is an event of a stream.
type Event struct {
	Type string // empty: the stream named none, which means "message"
	Data string // the lines of data, with LF between them
	ID   string // the last id in the stream so far; empty: there was none
}

// ReaderOptions are the options of a [Reader].
type ReaderOptions struct {
	// MaxEvent bounds an event, in bytes, with its field names and comments. 0: 64 MiB.
	MaxEvent int
	// Comment is called with each comment, without its colon and space. Nil: they are skipped.
	Comment func(text string)
}

// Reader reads a stream of events as the standard defines it, whichever line breaks it has. It
// must not be used by several goroutines at once.
type Reader struct {
	stream     *bufio.Reader
	opts       ReaderOptions
	started    bool // the first line was read; no byte order mark can follow
	afterCR    bool // the last line has ended with CR; an LF after it belongs to the same line break
	lastID     string
	retry      time.Duration
	lineBuffer []byte // the memory of the line that is read
}

// NewReader returns a Reader of a stream. It may read ahead.
func NewReader(stream io.Reader, opts ReaderOptions) *Reader {
	if opts.MaxEvent <= 0 {
		opts.MaxEvent = maxEvent
	}
	return &Reader{stream: bufio.NewReader(stream), opts: opts}
}

// Next returns the next event. It skips events without data. The error is [io.EOF] at the end of
// the stream, or [io.ErrUnexpectedEOF] if the stream ends within an event, which is dropped. The
// error matches [ErrEventTooLarge] for an event above the limit; nothing can be read after that
// event. Other errors are those of the stream.
func (r *Reader) Next() (Event, error) {
	e := new(pendingEvent)
	left := r.opts.MaxEvent
	for {
		line, err := r.readLine(left)
		switch {
		case errors.Is(err, io.EOF) && (left < r.opts.MaxEvent || len(line) > 0):
			return Event{}, io.ErrUnexpectedEOF
		case err != nil:
			return Event{}, err
		case len(line) > 0:
			left -= len(line)
			r.addField(e, line)
		case e.hasData:
			return Event{e.kind, string(e.data), r.lastID}, nil
		default:
			*e, left = pendingEvent{}, r.opts.MaxEvent
		}
	}
}

// Events returns the events up to the end of the stream. If the stream ends with an error other
// than [io.EOF], the last element has that error.
func (r *Reader) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Retry is how long a client waits before it connects again, by the last retry field; 0: none.
func (r *Reader) Retry() time.Duration { return r.retry }

// pendingEvent is an event that is being read.
type pendingEvent struct {
	kind    string
	data    []byte
	hasData bool
}

// addField adds a line of the stream to e. The line is not empty.
func (r *Reader) addField(e *pendingEvent, line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "":
		if r.opts.Comment != nil {
			r.opts.Comment(string(value))
		}
	case "event":
		e.kind = string(value)
	case "data":
		if e.hasData {
			e.data = append(e.data, '\n')
		}
		e.data, e.hasData = append(e.data, value...), true
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.lastID = string(value)
		}
	case "retry":
		digits := strings.Trim(string(value), "0123456789") == ""
		if n, err := strconv.ParseInt(string(value), 10, 32); err == nil && digits {
			r.retry = time.Duration(n) * time.Millisecond
		}
	}
}

// byteOrderMark may be at the beginning of a stream.
var byteOrderMark = []byte("\uFEFF")

// readLine returns the next line without its line break, valid until the next call. If the stream
// fails, it returns the bytes before the error, and the error. A line above limit is an error.
func (r *Reader) readLine(limit int) ([]byte, error) {
	line := r.lineBuffer[:0]
	defer func() { r.lineBuffer = line }()
	for {
		if _, err := r.stream.Peek(1); err != nil {
			return line, err
		}
		part, _ := r.stream.Peek(r.stream.Buffered())
		if r.afterCR && part[0] == '\n' {
			r.afterCR = false
			_, _ = r.stream.Discard(1)
			continue
		}
		r.afterCR = false
		end := lineBreak(part)
		taken := part
		if end >= 0 {
			taken = part[:end]
		}
		if line = append(line, taken...); len(line) > limit {
			return nil, fmt.Errorf("%w: it has more than %d bytes", ErrEventTooLarge, r.opts.MaxEvent)
		}
		if end < 0 {
			_, _ = r.stream.Discard(len(part))
			continue
		}
		r.afterCR = part[end] == '\r'
		_, _ = r.stream.Discard(end + 1)
		if !r.started {
			r.started = true
			return bytes.TrimPrefix(line, byteOrderMark), nil
		}
		return line, nil
	}
}

package apiclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a line, in bytes.
const maxLine = 64 << 20

// Event is one event. Type is empty if the stream named none.
type Event struct{ Type, Data string }

// Reader reads the server-sent events that package sse writes. It is strict: a line
// that the writer does not write is an error. It is not safe for concurrent use.
type Reader struct{ from *bufio.Reader }

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReader(r)} }

// Next returns the next event and skips comments. The error is [io.EOF] at the
// end of the stream, [io.ErrUnexpectedEOF] if that is within an event, or that of
// the stream.
func (r *Reader) Next() (Event, error) {
	for {
		e, err := r.frame()
		if err != nil || e != (Event{}) {
			return e, err
		}
	}
}

// frame reads lines up to an empty one. The event is zero if all were comments.
func (r *Reader) frame() (e Event, err error) {
	for first := true; ; first = false {
		line, err := r.line()
		switch {
		case errors.Is(err, io.EOF) && !first:
			return Event{}, io.ErrUnexpectedEOF
		case err != nil:
			return Event{}, err
		case line == "" && (first || e.Type != "" && e.Data == ""):
			return Event{}, fmt.Errorf("the event %q has no data", e.Type)
		case line == "":
			return e, nil
		}
		switch name, value, _ := strings.Cut(line, ": "); {
		case name == "":
		case name == "event" && e == Event{}:
			e.Type = value
		case name == "data" && e.Data == "":
			e.Data = value
		default:
			return Event{}, fmt.Errorf("unexpected line %.200q", line)
		}
	}
}

// line reads a line, without its end.
func (r *Reader) line() (string, error) {
	var line []byte
	for {
		part, err := r.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return string(line[:len(line)-1]), nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return "", io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		case len(line) > maxLine:
			return "", fmt.Errorf("a line has more than %d bytes", maxLine)
		}
	}
}

package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// ErrEventTooLarge is the error of [Read] for an event of more than 64 MiB.
var ErrEventTooLarge = errors.New("sse: the event has more than 64 MiB")

// maxEvent bounds an event, in bytes, with its field names and comments.
const maxEvent = 64 << 20

// Event is an event of a stream.
type Event struct {
	Type string // empty: the stream named none, which means "message"
	Data string // the lines of data, with LF between them
	ID   string // the last id in the stream so far; empty: there was none
}

// Read returns the events of a stream as the standard defines it, whichever line breaks it has, and without
// events that have no data. It may read ahead. After an error, the last element has this error instead of
// an event: [io.ErrUnexpectedEOF] if the stream ends within an event, [ErrEventTooLarge], or the error of
// the stream.
func Read(stream io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		lines := bufio.NewScanner(stream)
		lines.Buffer(nil, maxEvent)
		lines.Split(splitLines())
		var e Event
		var data []byte // each line of data with an LF
		size := 0       // how many bytes the lines of the event have so far, also its comments
		for first := true; size <= maxEvent && lines.Scan(); first = false {
			line := lines.Bytes()
			if first {
				line = bytes.TrimPrefix(line, []byte("\uFEFF")) // a byte order mark
			}
			if len(line) > 0 {
				size += len(line)
				data = e.addField(data, line)
				continue
			}
			if len(data) > 0 {
				e.Data = string(data[:len(data)-1])
				if !yield(e, nil) {
					return
				}
			}
			e, data, size = Event{ID: e.ID}, data[:0], 0 // the next event; only the id stays
		}
		switch err := lines.Err(); {
		case size > maxEvent, errors.Is(err, bufio.ErrTooLong):
			yield(Event{}, ErrEventTooLarge)
		case err != nil:
			yield(Event{}, err)
		case size > 0:
			yield(Event{}, io.ErrUnexpectedEOF)
		}
	}
}

// addField adds a line of the stream, which is not empty, to e or to the data.
func (e *Event) addField(data, line []byte) []byte {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.Type = string(value)
	case "data":
		data = append(append(data, value...), '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.ID = string(value)
		}
	}
	return data
}

// splitLines returns a function that finds lines for a [bufio.Scanner]. A CR ends a line at once,
// since waiting for an LF after it could delay an event. Such an LF is skipped with the next line.
func splitLines() bufio.SplitFunc {
	afterCR, searched := false, 0 // searched: how many bytes of data have no line break
	return func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		begin := 0
		if afterCR && bytes.HasPrefix(data, []byte("\n")) {
			begin = 1
		}
		searched = max(searched, begin)
		end := lineBreak(data[searched:])
		if end < 0 {
			searched = len(data)
			if atEOF && len(data) > begin {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		end += searched
		afterCR, searched = data[end] == '\r', 0
		return end + 1, data[begin:end], nil
	}
}

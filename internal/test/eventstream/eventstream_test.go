package eventstream_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-codex/caddy-codex/internal/test/eventstream"
)

// read returns the events of a stream and how it ends; nil: with io.EOF.
func read(stream io.Reader) (events []eventstream.Event, err error) {
	for e, err := range eventstream.Read(stream) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// TestRead checks what is read of a stream, whole and byte by byte, and how it ends.
func TestRead(t *testing.T) {
	for stream, want := range map[string]struct {
		events []eventstream.Event
		err    error
	}{
		"":                                    {},
		"data: a\n\n":                         {events: []eventstream.Event{{Data: "a"}}},
		"data:a\n\ndata:  b\n\n":              {events: []eventstream.Event{{Data: "a"}, {Data: " b"}}},
		"event: t\ndata: a\ndata: b\n\n":      {events: []eventstream.Event{{Type: "t", Data: "a\nb"}}},
		"data\n\ndata:\ndata\n\n":             {events: []eventstream.Event{{}, {Data: "\n"}}},
		"event: t\n\ndata: a\n\n":             {events: []eventstream.Event{{Data: "a"}}},
		"data: a\rdata: b\r\rdata: c\r\n\r\n": {events: []eventstream.Event{{Data: "a\nb"}, {Data: "c"}}},
		"\uFEFFdata: a\n\n\uFEFFdata: b\n\n":  {events: []eventstream.Event{{Data: "a"}}},
		": k\n\n:l\ndata: a\n\n":              {events: []eventstream.Event{{Data: "a"}}},
		"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: \x00\ndata: d\n\n": {
			events: []eventstream.Event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}, {Data: "c"}, {Data: "d"}}},
		"other: x\ndata: a\n\n": {events: []eventstream.Event{{Data: "a"}}},
		"data: a\n":             {err: io.ErrUnexpectedEOF},
		"data: a\n\nevent: t":   {events: []eventstream.Event{{Data: "a"}}, err: io.ErrUnexpectedEOF},
	} {
		for _, from := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			if events, err := read(from); !slices.Equal(events, want.events) || !errors.Is(err, want.err) {
				t.Errorf("%.60q: %q, %v", stream, events, err)
			}
		}
	}
}

// endless is a stream that repeats its text.
type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

// TestReadFails checks the errors of a stream that breaks, and of one with an endless event.
func TestReadFails(t *testing.T) {
	broken := errors.New("broken")
	for want, rest := range map[error]io.Reader{broken: iotest.ErrReader(broken), eventstream.ErrEventTooLarge: endless("data: " + strings.Repeat("c", 10_000) + "\n")} {
		if events, err := read(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), rest)); len(events) != 1 || !errors.Is(err, want) {
			t.Errorf("%q, %v", events, err)
		}
	}
	if _, err := read(endless(strings.Repeat("x", 10_000))); !errors.Is(err, eventstream.ErrEventTooLarge) {
		t.Errorf("an endless line: %v", err)
	}
}

// FuzzReader compares the events of a stream that comes in pieces with those of the whole text.
func FuzzReader(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\n\nid: 1\ndata: b\n\n", 3)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		var pieces []io.Reader
		for piece := range slices.Chunk([]byte(stream), max(1, size%17)) {
			pieces = append(pieces, bytes.NewReader(piece))
		}
		got, _ := read(io.MultiReader(pieces...))
		if want := parse([]byte(stream)); !slices.Equal(got, want) {
			t.Errorf("%q became %q, want %q", stream, got, want)
		}
	})
}

// parse reads a whole stream as the standard defines it, to compare Read with.
func parse(stream []byte) (events []eventstream.Event) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(stream), "\uFEFF"))
	lines := strings.Split(text, "\n")
	var data []string
	typ, id := "", ""
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if len(data) > 0 {
				events = append(events, eventstream.Event{Type: typ, Data: strings.Join(data, "\n"), ID: id})
			}
			data, typ = nil, ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			typ = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events
}

package sse_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/sse"
)

// read returns the events of a stream and how it ends; nil: with io.EOF.
func read(stream io.Reader) (events []sse.Event, err error) {
	for e, err := range sse.Read(stream) {
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
		events []sse.Event
		err    error
	}{
		"":                                    {},
		"data: a\n\n":                         {events: []sse.Event{{Data: "a"}}},
		"data:a\n\ndata:  b\n\n":              {events: []sse.Event{{Data: "a"}, {Data: " b"}}},
		"event: t\ndata: a\ndata: b\n\n":      {events: []sse.Event{{Type: "t", Data: "a\nb"}}},
		"data\n\ndata:\ndata\n\n":             {events: []sse.Event{{}, {Data: "\n"}}},
		"event: t\n\ndata: a\n\n":             {events: []sse.Event{{Data: "a"}}},
		"data: a\rdata: b\r\rdata: c\r\n\r\n": {events: []sse.Event{{Data: "a\nb"}, {Data: "c"}}},
		"\uFEFFdata: a\n\n\uFEFFdata: b\n\n":  {events: []sse.Event{{Data: "a"}}},
		": k\n\n:l\ndata: a\n\n":              {events: []sse.Event{{Data: "a"}}},
		"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: \x00\ndata: d\n\n": {
			events: []sse.Event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}, {Data: "c"}, {Data: "d"}}},
		"other: x\ndata: a\n\n": {events: []sse.Event{{Data: "a"}}},
		"data: a\n":             {err: io.ErrUnexpectedEOF},
		"data: a\n\nevent: t":   {events: []sse.Event{{Data: "a"}}, err: io.ErrUnexpectedEOF},
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
	for want, rest := range map[error]io.Reader{broken: iotest.ErrReader(broken), sse.ErrEventTooLarge: endless("data: " + strings.Repeat("c", 10_000) + "\n")} {
		if events, err := read(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), rest)); len(events) != 1 || !errors.Is(err, want) {
			t.Errorf("%q, %v", events, err)
		}
	}
	if _, err := read(endless(strings.Repeat("x", 10_000))); !errors.Is(err, sse.ErrEventTooLarge) {
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
func parse(stream []byte) (events []sse.Event) {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(stream), "\uFEFF"))
	lines := strings.Split(text, "\n")
	var data []string
	typ, id := "", ""
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if len(data) > 0 {
				events = append(events, sse.Event{Type: typ, Data: strings.Join(data, "\n"), ID: id})
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

// checkRoundTrip writes a comment and two events, and reads them back.
func checkRoundTrip(t *testing.T, typ string, data []byte, comment string) {
	t.Helper()
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{})
	must.OK(t, errors.Join(w.WriteComment(comment), w.WriteEvent(typ, data), w.WriteData([]byte("[DONE]")), w.Close()))
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	want := []sse.Event{{Type: typ, Data: lines.Replace(string(data))}, {Data: "[DONE]"}}
	got, err := read(bytes.NewReader(r.body))
	if err != nil || !slices.Equal(got, want) || !slices.Equal(parse(r.body), want) {
		t.Errorf("%q came back as %q, %v", want, got, err)
	}
}

func TestRoundTrip(t *testing.T) {
	tokens := []string{"\n", "\r", "\r\n", ":", " ", "data: ", "id: 1\n", "x", "é", "\uFEFF", "{\"a\":1}", strings.Repeat("y", 5000)}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		var data, comment strings.Builder
		for range random.IntN(8) {
			data.WriteString(tokens[random.IntN(len(tokens))])
			comment.WriteString(tokens[random.IntN(len(tokens))])
		}
		checkRoundTrip(t, []string{"", "a", "a.b c"}[random.IntN(3)], []byte(data.String()), comment.String())
	}
}

// FuzzRoundTrip checks that clients read what a Writer writes.
func FuzzRoundTrip(f *testing.F) {
	f.Add("", []byte("{}"), "keepalive")
	f.Add("response.created", []byte("a\r\n\nb\r"), "a\nb")
	f.Fuzz(func(t *testing.T, typ string, data []byte, comment string) {
		if strings.ContainsAny(typ, "\r\n") {
			typ = "t"
		}
		checkRoundTrip(t, typ, data, comment)
	})
}

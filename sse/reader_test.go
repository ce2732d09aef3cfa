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
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

// read returns the events of a stream and how it ends; nil: with io.EOF.
func read(r *sse.Reader) (events []sse.Event, err error) {
	for e, err := range r.Events() {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// TestReader checks what is read of a stream, whole and byte by byte, and how it ends.
func TestReader(t *testing.T) {
	for stream, want := range map[string]struct {
		events   []sse.Event
		comments string
		retry    time.Duration
		err      error
	}{
		"":                                    {},
		"data: a\n\n":                         {events: []sse.Event{{Data: "a"}}},
		"data:a\n\ndata:  b\n\n":              {events: []sse.Event{{Data: "a"}, {Data: " b"}}},
		"event: t\ndata: a\ndata: b\n\n":      {events: []sse.Event{{Type: "t", Data: "a\nb"}}},
		"data\n\ndata:\ndata\n\n":             {events: []sse.Event{{}, {Data: "\n"}}},
		"event: t\n\ndata: a\n\n":             {events: []sse.Event{{Data: "a"}}},
		"data: a\rdata: b\r\rdata: c\r\n\r\n": {events: []sse.Event{{Data: "a\nb"}, {Data: "c"}}},
		"\uFEFFdata: a\n\n\uFEFFdata: b\n\n":  {events: []sse.Event{{Data: "a"}}},
		": k\n\n:l\ndata: a\n\n":              {events: []sse.Event{{Data: "a"}}, comments: "k|l|"},
		"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\nid: \x00\ndata: d\n\n": {
			events: []sse.Event{{ID: "1", Data: "a"}, {ID: "1", Data: "b"}, {Data: "c"}, {Data: "d"}}},
		"retry: 1500\n\nretry: +1\n\nretry: x\n\n":     {retry: 1500 * time.Millisecond},
		"other: x\ndata: a\n\n":                        {events: []sse.Event{{Data: "a"}}},
		"data: a\n":                                    {err: io.ErrUnexpectedEOF},
		"data: a\n\nevent: t":                          {events: []sse.Event{{Data: "a"}}, err: io.ErrUnexpectedEOF},
		"data: " + strings.Repeat("x", 200) + "\n\n":   {err: sse.ErrEventTooLarge},
		strings.Repeat("data: xxxxxxxx\n", 20) + "\n":  {err: sse.ErrEventTooLarge},
		strings.Repeat(": x\n\n", 100) + "data: a\n\n": {events: []sse.Event{{Data: "a"}}, comments: strings.Repeat("x|", 100)},
	} {
		for _, from := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			comments := ""
			r := sse.NewReader(from, sse.ReaderOptions{MaxEvent: 100, Comment: func(text string) { comments += text + "|" }})
			events, err := read(r)
			if !slices.Equal(events, want.events) || comments != want.comments || r.Retry() != want.retry || !errors.Is(err, want.err) {
				t.Errorf("%.60q: %q, comments %.40q, retry %s, %v", stream, events, comments, r.Retry(), err)
			}
		}
	}
}

// TestReaderFails checks that the error of a stream is that of its reader.
func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), sse.ReaderOptions{})
	if events, err := read(r); len(events) != 1 || !errors.Is(err, broken) {
		t.Errorf("%q, %v", events, err)
	}
}

// FuzzReader compares the events of a stream that comes in pieces with those of the whole text.
func FuzzReader(f *testing.F) {
	f.Add("data: a\r\n\r\n: c\n\nid: 1\ndata: b\n\n", 3)
	f.Fuzz(func(t *testing.T, stream string, size int) {
		size = max(1, size%17)
		pieces := func(yield func(string) bool) {
			for piece := range slices.Chunk([]byte(stream), size) {
				if !yield(string(piece)) {
					return
				}
			}
		}
		var all []io.Reader
		for piece := range pieces {
			all = append(all, strings.NewReader(piece))
		}
		got, _ := read(sse.NewReader(io.MultiReader(all...), sse.ReaderOptions{MaxEvent: len(stream) + 1}))
		if want := parse([]byte(stream)); !slices.Equal(got, want) {
			t.Errorf("%q became %q, want %q", stream, got, want)
		}
	})
}

// parse reads a whole stream as the standard defines it, to compare a Reader with.
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

// checkRoundTrip writes a comment, an event and the end, and reads them back.
func checkRoundTrip(t *testing.T, typ string, data []byte, comment string) {
	t.Helper()
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{})
	steps := []func() error{
		func() error { return w.WriteComment(comment) },
		func() error { return w.WriteEvent(typ, data) },
		w.WriteDone,
		w.Close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	want := []sse.Event{{Type: typ, Data: lines.Replace(string(data))}, {Data: "[DONE]"}}
	got, err := read(sse.NewReader(bytes.NewReader(r.body), sse.ReaderOptions{}))
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

package sse_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-codex/caddy-codex/sse"
)

// streams are inputs with everything that a cut could hurt.
var streams = []string{
	"\uFEFFevent: response.output_text.delta\ndata: {\"delta\":\"Grüße 👋🏽\"}\n\ndata: [DONE]\n\n",
	"\r\n: keepalive\r\n\r\nid: 7\r\ndata: a\r\ndata: b\r\n\r\ndata: c\rdata: d\r\rdata: e\n\n",
	"data: x\n\n\r\r\n\nretry: 10\ndata\ndata:\n\ndata: unfinished",
	"event: a\r\revent: b\rdata\r\ndata: \r\n\r\n\r\ndata:\n\r\r",
}

// expected parses a whole stream in the plainest way: the definition that the
// incremental Reader is held against.
func expected(stream string) (events []sse.Event) {
	stream = strings.TrimPrefix(stream, "\uFEFF")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n")
	var data []string
	var typ, id string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if len(data) > 0 {
				if typ == "" {
					typ = "message"
				}
				events = append(events, sse.Event{Type: typ, Data: strings.Join(data, "\n"), ID: id})
			}
			data, typ = nil, ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "data":
			data = append(data, value)
		case field == "event":
			typ = value
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return events
}

// TestEveryCut cuts each stream in two at every byte, and in pieces of every
// small size.
func TestEveryCut(t *testing.T) {
	for _, stream := range streams {
		want := expected(stream)
		for cut := range len(stream) + 1 {
			r := io.MultiReader(strings.NewReader(stream[:cut]), strings.NewReader(stream[cut:]))
			if got, _ := readAll(r, 0); !slices.Equal(got, want) {
				t.Errorf("%q cut at %d: read %q, want %q", stream, cut, got, want)
			}
		}
		for size := 1; size <= 9; size++ {
			if got, _ := readAll(&pieces{rest: stream, size: func() int { return size }}, 0); !slices.Equal(got, want) {
				t.Errorf("%q in pieces of %d: read %q, want %q", stream, size, got, want)
			}
		}
	}
}

// pieces hands out a text in pieces.
type pieces struct {
	rest string
	size func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size(), len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// TestRandomStreams holds the Reader against the definition on streams thrown
// together from what matters, in random pieces.
func TestRandomStreams(t *testing.T) {
	tokens := []string{"data", "event", "id", "retry", ":", " ", "\n", "\r", "\r\n", "\n\n", "x", "é", "\uFEFF", "\x00", "7"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b strings.Builder
		for range random.IntN(40) {
			b.WriteString(tokens[random.IntN(len(tokens))])
		}
		stream := b.String()
		r := &pieces{rest: stream, size: func() int { return random.IntN(4) + 1 }}
		if got, _ := readAll(r, 0); !slices.Equal(got, expected(stream)) {
			t.Fatalf("%q: read %q, want %q", stream, got, expected(stream))
		}
	}
}

// written writes an event with everything around it, and returns the stream.
func written(t *testing.T, typ string, data []byte, comment string) []byte {
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
	return r.body
}

// checkRoundTrip writes an event and reads it back, whole and byte by byte.
func checkRoundTrip(t *testing.T, typ string, data []byte, comment string) {
	t.Helper()
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	want := []sse.Event{{Type: typ, Data: lines.Replace(string(data))}, {Type: "message", Data: "[DONE]"}}
	if typ == "" {
		want[0].Type = "message"
	}
	stream := written(t, typ, data, comment)
	if bytes.Contains(stream, []byte("\nid")) || bytes.HasPrefix(stream, []byte("id")) {
		t.Errorf("an id line in %q", stream)
	}
	for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream))} {
		got, err := readAll(r, len(stream)+1)
		if err != io.EOF || !slices.Equal(got, want) {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
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

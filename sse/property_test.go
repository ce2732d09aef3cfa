package sse_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/sse"
)

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

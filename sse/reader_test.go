package sse_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

func TestReader(t *testing.T) {
	message := func(data string) sse.Event { return sse.Event{Type: "message", Data: data} }
	cases := []struct {
		name, in string
		want     []sse.Event
	}{
		{"one", "data: x\n\n", []sse.Event{message("x")}},
		{"no space", "data:x\n\n", []sse.Event{message("x")}},
		{"two spaces", "data:  x\n\n", []sse.Event{message(" x")}},
		{"empty data", "data\n\ndata:\n\n", []sse.Event{message(""), message("")}},
		{"several lines", "data: a\ndata:\ndata: b\n\n", []sse.Event{message("a\n\nb")}},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []sse.Event{message("a\nb"), message("c")}},
		{"CRLF", "data: a\r\ndata: b\r\n\r\n", []sse.Event{message("a\nb")}},
		{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r", []sse.Event{message("a\nb\nc"), message("d")}},
		{"byte order mark", "\uFEFFdata: x\n\n", []sse.Event{message("x")}},
		{"second byte order mark", "\uFEFF\uFEFFdata: x\n\ndata: y\n\n", []sse.Event{message("y")}},
		{"late byte order mark", "\n\uFEFFdata: x\n\n", nil},
		{"comments", ": c\n:\n::\ndata: x\n: c\n\n", []sse.Event{message("x")}},
		{"typed", "event: t\ndata: x\n\ndata: y\n\n", []sse.Event{{Type: "t", Data: "x"}, message("y")}},
		{"the last type counts", "event: t\nevent: u\ndata: x\n\n", []sse.Event{{Type: "u", Data: "x"}}},
		{"type without data", "event: t\n\ndata: x\n\n", []sse.Event{message("x")}},
		{"ids last", "id: 1\ndata: x\n\ndata: y\n\nid\ndata: z\n\n", []sse.Event{
			{Type: "message", Data: "x", ID: "1"}, {Type: "message", Data: "y", ID: "1"}, message("z")}},
		{"id with NUL", "id: 1\nid: 2\x00\ndata: x\n\n", []sse.Event{{Type: "message", Data: "x", ID: "1"}}},
		{"unknown fields", "Data: x\n data: y\ndata : z\nfoo\n\ndata: x\n\n", []sse.Event{message("x")}},
		{"colons in data", "data: a: b:c\n\n", []sse.Event{message("a: b:c")}},
		{"empty lines", "\n\n\r\r\n\ndata: x\n\n\n", []sse.Event{message("x")}},
		{"not UTF-8", "data: \xff\n\n", []sse.Event{message("\xff")}},
		{"nothing", "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(c.in), 0)
			if err != io.EOF {
				t.Errorf("ended with %v", err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("read %q, want %q", got, c.want)
			}
		})
	}
}

// readAll reads to the end of r, and returns why it ended.
func readAll(r io.Reader, limit int) (events []sse.Event, err error) {
	reader := sse.NewReader(r, limit)
	for {
		e, err := reader.Next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func TestReaderEnds(t *testing.T) {
	cases := []struct {
		name, in string
		want     error
	}{
		{"in a field name", "data: x\n\ndat", io.ErrUnexpectedEOF},
		{"in a data line", "data: x\n\ndata: y", io.ErrUnexpectedEOF},
		{"after a data line", "data: x\n\ndata: y\n", io.ErrUnexpectedEOF},
		{"after an event line", "data: x\n\nevent: y\n", io.ErrUnexpectedEOF},
		{"after a comment", "data: x\n\n: c\n", io.EOF},
		{"after an empty line", "data: x\n\n\n", io.EOF},
		{"between CR and LF", "data: x\r\n\r", io.EOF},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := sse.NewReader(strings.NewReader(c.in), 0)
			if e, err := r.Next(); err != nil || e.Data != "x" {
				t.Fatalf("read %q, %v", e, err)
			}
			for range 2 {
				if e, err := r.Next(); err != c.want {
					t.Errorf("read %q, %v, want %v", e, err, c.want)
				}
			}
		})
	}
}

// TestReaderError: what was read before the error counts, also if both came at
// once.
func TestReaderError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(errBroken))
	for _, r := range []io.Reader{broken, iotest.DataErrReader(io.MultiReader(strings.NewReader("data: x\n\nda"), iotest.ErrReader(errBroken)))} {
		got, err := readAll(r, 0)
		if !errors.Is(err, errBroken) || len(got) != 1 {
			t.Errorf("read %q, %v", got, err)
		}
	}
}

func TestReaderLimit(t *testing.T) {
	const limit = 20
	cases := []struct {
		name, in string
		ok       bool
	}{
		{"line at the limit", "data: " + strings.Repeat("x", 14) + "\n\n", true},
		{"line above the limit", "data: " + strings.Repeat("x", 15) + "\n\n", false},
		{"line without an end", strings.Repeat("x", 100_000), false},
		{"comment above the limit", ":" + strings.Repeat("x", 20) + "\n\n", false},
		{"data at the limit", "data: 123456789\ndata: 1234567890\n\n", true},
		{"data above the limit", "data: 123456789\ndata: 12345678901\n\n", false},
		{"empty lines of data", strings.Repeat("data\n", 1000), false},
		{"many events", strings.Repeat("data: x\n\n", 1000), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := readAll(strings.NewReader(c.in), limit)
			if ok := err == io.EOF; ok != c.ok || !ok && !errors.Is(err, sse.ErrTooLarge) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestComments(t *testing.T) {
	var got []string
	r := sse.NewReader(strings.NewReader(": keepalive\n\n:\n:  two\ndata: x\n\n"), 0)
	r.OnComment(func(text string) { got = append(got, text) })
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"keepalive", "", " two"}; !slices.Equal(got, want) {
		t.Errorf("comments %q, want %q", got, want)
	}
}

func TestRetry(t *testing.T) {
	cases := map[string]time.Duration{
		"":                               0,
		"retry: 1500\n":                  1500 * time.Millisecond,
		"retry: 1500\nretry: -1\n":       1500 * time.Millisecond,
		"retry: 1s\n":                    0,
		"retry\n":                        0,
		"retry: ٣\n":                     0,
		"retry: 99999999999999999999\n":  0,
		"retry: 1\nretry: 2\nretry: x\n": 2 * time.Millisecond,
	}
	for in, want := range cases {
		r := sse.NewReader(strings.NewReader(in+"data: x\n\n"), 0)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if got := r.Retry(); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

// TestNoWaiting: an event is out as soon as its last line ended, even if that
// was with CR, after which an LF may or may not follow.
func TestNoWaiting(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r"} {
		in, out := io.Pipe()
		go func() { _, _ = io.WriteString(out, "data: x"+end) }()
		r := sse.NewReader(in, 0)
		if e, err := r.Next(); err != nil || e.Data != "x" {
			t.Errorf("%q: read %q, %v", end, e, err)
		}
		_ = in.Close()
	}
}

package sse_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

func TestFrames(t *testing.T) {
	cases := []struct {
		name  string
		write func(*sse.Writer) error
		want  string
	}{
		{"data", data("x"), "data: x\n\n"},
		{"empty data", data(""), "data: \n\n"},
		{"data that begins with a space", data(" x"), "data:  x\n\n"},
		{"LF", data("a\nb"), "data: a\ndata: b\n\n"},
		{"CR", data("a\rb"), "data: a\ndata: b\n\n"},
		{"CRLF", data("a\r\nb"), "data: a\ndata: b\n\n"},
		{"CR before the first LF", data("a\rb\nc"), "data: a\ndata: b\ndata: c\n\n"},
		{"LF, CR", data("a\n\rb"), "data: a\ndata: \ndata: b\n\n"},
		{"LF at the end", data("a\n"), "data: a\ndata: \n\n"},
		{"multibyte", data("Grüße 👋🏽"), "data: Grüße 👋🏽\n\n"},
		{"typed", typed("t.x", "{}"), "event: t.x\ndata: {}\n\n"},
		{"typed, no type", typed("", "{}"), "data: {}\n\n"},
		{"comment", comment("hello"), ": hello\n\n"},
		{"empty comment", comment(""), ": \n\n"},
		{"comment of several lines", comment("a\r\nb\nc\rd"), ": a\n: b\n: c\n: d\n\n"},
		{"done", (*sse.Writer).WriteDone, "data: [DONE]\n\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newResponse()
			w := sse.NewWriter(r, sse.WriterOptions{})
			if err := c.write(w); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if got := string(r.body); got != c.want {
				t.Errorf("wrote %q, want %q", got, c.want)
			}
		})
	}
}

func data(s string) func(*sse.Writer) error {
	return func(w *sse.Writer) error { return w.WriteData([]byte(s)) }
}

func typed(typ, s string) func(*sse.Writer) error {
	return func(w *sse.Writer) error { return w.WriteEvent(typ, []byte(s)) }
}

func comment(s string) func(*sse.Writer) error {
	return func(w *sse.Writer) error { return w.WriteComment(s) }
}

func TestHeader(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{})
	if w.Started() || r.status != 0 {
		t.Fatal("the stream began before the first flush")
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !w.Started() || r.status != http.StatusOK {
		t.Errorf("started %v with status %d, want true, 200", w.Started(), r.status)
	}
	want := http.Header{
		"Content-Type":      {"text/event-stream"},
		"Cache-Control":     {"no-cache, no-transform"},
		"X-Accel-Buffering": {"no"},
	}
	for name, values := range want {
		if got := r.header[name]; !slices.Equal(got, values) {
			t.Errorf("%s is %q, want %q", name, got, values)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	wantLog(t, r, "header", "flush", "flush")
}

// TestBatch checks that frames wait for the flush, which writes them at once.
func TestBatch(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
	for range 3 {
		if err := w.WriteData([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.log) != 0 {
		t.Fatalf("before the flush: %v", r.log)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	wantLog(t, r, "no deadline", "header", "write", "flush")
}

// TestBound checks that a frame larger than the buffer is written in pieces.
func TestBound(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
	long := bytes.Repeat([]byte("x"), 10_000)
	if err := w.WriteData(long); err != nil {
		t.Fatal(err)
	}
	wantLog(t, r, "no deadline", "header", "write", "write")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := []int{4096, 4096, 10_008 - 2*4096}; !slices.Equal(r.writes, want) {
		t.Errorf("writes of %v bytes, want %v", r.writes, want)
	}
	if want := "data: " + string(long) + "\n\n"; string(r.body) != want {
		t.Error("the frame was not put together again")
	}
}

func TestClose(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{})
	if err := w.WriteDone(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := string(r.body); got != "data: [DONE]\n\n" {
		t.Errorf("closing flushed %q", got)
	}
	later := []func() error{
		w.Flush, w.Close, w.WriteDone,
		func() error { return w.WriteData([]byte(strings.Repeat("x", 9000))) },
		func() error { _, err := w.Keepalive(); return err },
	}
	for i, f := range later {
		if err := f(); !errors.Is(err, sse.ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
	if got := string(r.body); got != "data: [DONE]\n\n" {
		t.Errorf("after Close the body is %q", got)
	}
}

// TestEnd checks that the end of a stream is written with a deadline and without a flush,
// also by Close.
func TestEnd(t *testing.T) {
	for _, started := range []bool{false, true} {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
		if started {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			r.log = r.log[2:] // "no deadline", "header"
		}
		if err := errors.Join(w.WriteDone(), w.Close()); err != nil {
			t.Fatal(err)
		}
		want := []string{"flush", "deadline", "write"}
		if !started {
			want = []string{"deadline", "header", "write"}
		}
		wantLog(t, r, want...)
	}
}

// TestCloseUnstarted checks that Close without frames leaves the response alone.
func TestCloseUnstarted(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(r.log) != 0 || w.Started() {
		t.Errorf("closing did %v", r.log)
	}
}

func TestEventTypeWithLineBreak(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{})
	for _, typ := range []string{"a\nb", "a\r", "\n"} {
		if err := w.WriteEvent(typ, nil); !errors.Is(err, sse.ErrEventType) {
			t.Errorf("type %q: %v", typ, err)
		}
	}
	if err := w.WriteEvent("a", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := string(r.body); got != "event: a\ndata: \n\n" {
		t.Errorf("wrote %q", got)
	}
}

// TestFailures checks that the first error is kept and nothing is written after
// it.
func TestFailures(t *testing.T) {
	cases := []struct {
		name    string
		broken  response
		want    error
		stalled bool
	}{
		{"write", response{writeErr: errBroken}, errBroken, false},
		{"flush", response{flushErr: errBroken}, errBroken, false},
		{"deadline", response{deadlineErr: errBroken}, errBroken, false},
		{"write timed out", response{writeErr: os.ErrDeadlineExceeded}, os.ErrDeadlineExceeded, true},
		{"flush timed out", response{flushErr: os.ErrDeadlineExceeded}, os.ErrDeadlineExceeded, true},
		{"flush unknown", response{flushErr: http.ErrNotSupported}, http.ErrNotSupported, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &c.broken
			r.header = http.Header{}
			w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Hour})
			if err := w.WriteData([]byte("x")); err != nil {
				t.Fatalf("before the flush: %v", err)
			}
			err := w.Flush()
			if !errors.Is(err, c.want) || errors.Is(err, sse.ErrStalled) != c.stalled {
				t.Fatalf("flush: %v", err)
			}
			done := len(r.log)
			for range 2 {
				if again := w.WriteData([]byte("y")); again != err {
					t.Errorf("writing after it: %v", again)
				}
				if again := w.Flush(); again != err {
					t.Errorf("flushing after it: %v", again)
				}
			}
			if again := w.Close(); again != err {
				t.Errorf("closing after it: %v", again)
			}
			if len(r.log) != done {
				t.Errorf("after the failure: %v", r.log[done:])
			}
		})
	}
}

// TestNoDeadlines checks that a response writer may lack deadlines but must be
// able to flush.
func TestNoDeadlines(t *testing.T) {
	r := newResponse()
	flushes := 0
	w := sse.NewWriter(unlimited{plain{r}, func() error { flushes++; return nil }}, sse.WriterOptions{WriteTimeout: time.Second})
	for range 2 {
		if err := w.WriteData([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if flushes != 2 || string(r.body) != "data: x\n\ndata: x\n\n" {
		t.Errorf("%d flushes of %q", flushes, r.body)
	}

	w = sse.NewWriter(plain{newResponse()}, sse.WriterOptions{WriteTimeout: time.Second})
	if err := w.Flush(); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("without a flush: %v", err)
	}
}

func wantLog(t *testing.T, r *response, want ...string) {
	t.Helper()
	if !slices.Equal(r.log, want) {
		t.Errorf("the response writer saw %v, want %v", r.log, want)
	}
}

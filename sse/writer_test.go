package sse_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
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
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newResponse()
			w := sse.NewWriter(r, sse.WriterOptions{})
			must.OK(t, c.write(w))
			must.OK(t, w.Flush())
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
	must.OK(t, w.Flush())
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
	must.OK(t, w.Flush())
	wantLog(t, r, "header", "flush", "flush")
}

// TestBatch checks that frames wait for the flush, which writes them at once.
func TestBatch(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
	for range 3 {
		must.OK(t, w.WriteData([]byte("x")))
	}
	if len(r.log) != 0 {
		t.Fatalf("before the flush: %v", r.log)
	}
	must.OK(t, w.Flush())
	wantLog(t, r, "no deadline", "header", "write", "flush")
}

// TestBound checks that a frame larger than the buffer is written in pieces.
func TestBound(t *testing.T) {
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
	long := bytes.Repeat([]byte("x"), 10_000)
	must.OK(t, w.WriteData(long))
	wantLog(t, r, "no deadline", "header", "write", "write")
	must.OK(t, w.Flush())
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
	must.OK(t, w.WriteData([]byte("x")))
	must.OK(t, w.Close())
	if got := string(r.body); got != "data: x\n\n" {
		t.Errorf("closing flushed %q", got)
	}
	later := []func() error{
		w.Flush, w.Close,
		func() error { return w.WriteData([]byte(strings.Repeat("x", 9000))) },
		func() error { _, err := w.Keepalive(); return err },
	}
	for i, f := range later {
		if err := f(); !errors.Is(err, sse.ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
	if got := string(r.body); got != "data: x\n\n" {
		t.Errorf("after Close the body is %q", got)
	}
}

// The end of a stream is written with a deadline and without a flush, also by Close.
func TestEnd(t *testing.T) {
	for _, started := range []bool{false, true} {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{WriteTimeout: time.Minute})
		if started {
			must.OK(t, w.Flush())
			r.log = r.log[2:] // "no deadline", "header"
		}
		must.OK(t, errors.Join(w.WriteData([]byte("x")), w.Close()))
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
	must.OK(t, w.Close())
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
	must.OK(t, w.WriteEvent("a", nil))
	must.OK(t, w.Close())
	if got := string(r.body); got != "event: a\ndata: \n\n" {
		t.Errorf("wrote %q", got)
	}
}

// The first error is kept and nothing is written after it.
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

// A response writer may lack deadlines but must be able to flush.
func TestNoDeadlines(t *testing.T) {
	r := newResponse()
	flushes := 0
	w := sse.NewWriter(unlimited{plain{r}, func() error { flushes++; return nil }}, sse.WriterOptions{WriteTimeout: time.Second})
	for range 2 {
		must.OK(t, w.WriteData([]byte("x")))
		must.OK(t, w.Flush())
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

func TestKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{Keepalive: 15 * time.Second})
		wantNext(t, w, 15*time.Second)
		time.Sleep(10 * time.Second)
		wantNext(t, w, 5*time.Second)
		wantKeepalive(t, w, 5*time.Second)
		if len(r.body) != 0 {
			t.Fatalf("a keepalive before its time: %q", r.body)
		}

		time.Sleep(5 * time.Second)
		wantNext(t, w, 0)
		wantKeepalive(t, w, 15*time.Second)
		if got := string(r.body); got != ": keepalive\n\n" {
			t.Fatalf("the keepalive is %q", got)
		}

		time.Sleep(14 * time.Second)
		must.OK(t, w.WriteData([]byte("x")))
		must.OK(t, w.Flush())
		wantKeepalive(t, w, 15*time.Second)
		time.Sleep(time.Minute)
		wantNext(t, w, 0)
	})
}

// TestKeepaliveForms checks what a keepalive is: an event if the client expects such, a line in a
// stream of JSON lines, in which no comment is written either, or the frames in the buffer.
func TestKeepaliveForms(t *testing.T) {
	for want, prepare := range map[string]func(*sse.Writer) error{
		"event: ping\ndata: {}\n\n": func(w *sse.Writer) error { w.SetPing("ping", []byte("{}")); return nil },
		"{\"a\":1}\n{\"a\":\"\"}\n": func(w *sse.Writer) error {
			w.SetLines([]byte(`{"a":""}`))
			return errors.Join(w.WriteData([]byte(`{"a":1}`)), w.WriteComment("a"), w.Flush())
		},
		"data: x\n\n": data("x"),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newResponse()
			w := sse.NewWriter(r, sse.WriterOptions{Keepalive: time.Second})
			must.OK(t, prepare(w))
			time.Sleep(time.Second)
			wantKeepalive(t, w, time.Second)
			if got := string(r.body); got != want {
				t.Errorf("wrote %q, want %q", got, want)
			}
			if got := r.Header().Get("Content-Type"); (got == sse.LinesContentType) != strings.HasPrefix(want, "{") {
				t.Errorf("%q has the type %q", want, got)
			}
		})
	}
}

// TestKeepaliveLoop runs the loop in the documentation of Keepalive.
func TestKeepaliveLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{Keepalive: 10 * time.Second})
		events := make(chan string)
		go func() {
			defer close(events)
			for _, pause := range []time.Duration{25 * time.Second, 6 * time.Second, 6 * time.Second, 11 * time.Second} {
				time.Sleep(pause)
				events <- pause.String()
			}
		}()
		timer := time.NewTimer(w.NextKeepalive())
		defer timer.Stop()
		for open := true; open; {
			select {
			case e, ok := <-events:
				if open = ok; !ok {
					break
				}
				must.OK(t, errors.Join(w.WriteData([]byte(e)), w.Flush()))
			case <-timer.C:
				next, err := w.Keepalive()
				must.OK(t, err)
				timer.Reset(next)
			}
		}
		const want = ": keepalive\n\n: keepalive\n\ndata: 25s\n\ndata: 6s\n\ndata: 6s\n\n: keepalive\n\ndata: 11s\n\n"
		if got := string(r.body); got != want {
			t.Errorf("wrote %q, want %q", got, want)
		}
	})
}

func TestKeepaliveOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{})
		time.Sleep(time.Hour)
		wantNext(t, w, sse.Never)
		wantKeepalive(t, w, sse.Never)
		if len(r.log) != 0 {
			t.Errorf("the response writer saw %v", r.log)
		}
	})
}

func TestKeepaliveOfFailedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		r.flushErr = errBroken
		w := sse.NewWriter(r, sse.WriterOptions{Keepalive: time.Second})
		time.Sleep(time.Second)
		if next, err := w.Keepalive(); next != sse.Never || !errors.Is(err, errBroken) {
			t.Errorf("the keepalive returned %v, %v", next, err)
		}
		wantNext(t, w, sse.Never)
	})
}

func wantNext(t *testing.T, w *sse.Writer, want time.Duration) {
	t.Helper()
	if got := w.NextKeepalive(); got != want {
		t.Errorf("the next keepalive is due in %v, want %v", got, want)
	}
}

func wantKeepalive(t *testing.T, w *sse.Writer, want time.Duration) {
	t.Helper()
	got, err := w.Keepalive()
	must.OK(t, err)
	if got != want {
		t.Errorf("Keepalive asks to be called again in %v, want %v", got, want)
	}
}

// response is a response writer that records the calls to it, in order.
type response struct {
	header http.Header
	status int
	body   []byte
	writes []int    // sizes
	log    []string // "header", "write", "flush", "deadline", "no deadline"

	writeErr, flushErr, deadlineErr error
}

func newResponse() *response {
	return &response{header: http.Header{}}
}

var errBroken = errors.New("broken pipe")

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	r.status = status
	r.log = append(r.log, "header")
}

func (r *response) Write(p []byte) (int, error) {
	r.log = append(r.log, "write")
	if r.writeErr != nil {
		return 0, r.writeErr
	}
	r.writes = append(r.writes, len(p))
	r.body = append(r.body, p...)
	return len(p), nil
}

func (r *response) FlushError() error {
	r.log = append(r.log, "flush")
	return r.flushErr
}

func (r *response) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		r.log = append(r.log, "no deadline")
	} else {
		r.log = append(r.log, "deadline")
	}
	return r.deadlineErr
}

// plain is a response writer without any optional method.
type plain struct {
	http.ResponseWriter
}

// unlimited is a response writer that can flush and has no deadlines.
type unlimited struct {
	plain
	flush func() error
}

func (u unlimited) FlushError() error { return u.flush() }

// chunk resembles a delta of a chat completion.
var chunk = []byte(`{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1795249642,"model":"gpt-5",` +
	`"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`)

// discard is a response writer that has every method a Writer uses and does nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) WriteHeader(int)                  {}
func (discard) FlushError() error                { return nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }
func discarded(o sse.WriterOptions) *sse.Writer  { return sse.NewWriter(discard{http.Header{}}, o) }
func oneFrame(w *sse.Writer, typ string) error {
	return errors.Join(w.WriteEvent(typ, chunk), w.Flush())
}
func options() sse.WriterOptions {
	return sse.WriterOptions{WriteTimeout: time.Minute, Keepalive: time.Minute}
}

func BenchmarkWriteFlush(b *testing.B) {
	w := discarded(options())
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if err := oneFrame(w, ""); err != nil { // not must.OK, which would be counted as well
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteBatch(b *testing.B) {
	w := discarded(options())
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if err := w.WriteData(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

package sse_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

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
		if err := w.WriteData([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		wantKeepalive(t, w, 15*time.Second)
		time.Sleep(time.Minute)
		wantNext(t, w, 0)
	})
}

// TestPing checks that keepalives are events if the client expects such.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{Keepalive: time.Second})
		w.SetPing("ping", []byte("{}"))
		time.Sleep(time.Second)
		wantKeepalive(t, w, time.Second)
		if got := string(r.body); got != "event: ping\ndata: {}\n\n" {
			t.Errorf("wrote %q", got)
		}
	})
}

// TestLines checks a stream of JSON lines, in which nothing but data is written.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{Keepalive: time.Second})
		w.SetLines([]byte(`{"a":""}`))
		for _, write := range []func() error{
			func() error { return w.WriteData([]byte(`{"a":1}`)) },
			func() error { return w.WriteComment("a") },
			w.Flush,
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		wantKeepalive(t, w, time.Second)
		if got := string(r.body); got != "{\"a\":1}\n{\"a\":\"\"}\n" {
			t.Errorf("wrote %q", got)
		}
		if got := r.Header().Get("Content-Type"); got != sse.LinesContentType {
			t.Errorf("the type %q", got)
		}
	})
}

// TestKeepaliveFlushes checks that frames in the buffer replace the comment.
func TestKeepaliveFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResponse()
		w := sse.NewWriter(r, sse.WriterOptions{Keepalive: time.Second})
		if err := w.WriteData([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		wantKeepalive(t, w, time.Second)
		if got := string(r.body); got != "data: x\n\n" {
			t.Errorf("wrote %q", got)
		}
	})
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
				if err := errors.Join(w.WriteData([]byte(e)), w.Flush()); err != nil {
					t.Fatal(err)
				}
			case <-timer.C:
				next, err := w.Keepalive()
				if err != nil {
					t.Fatal(err)
				}
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
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("Keepalive asks to be called again in %v, want %v", got, want)
	}
}

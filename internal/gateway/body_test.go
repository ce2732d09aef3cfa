package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/budget"
)

func TestReadBody(t *testing.T) {
	g := New(nil, Options{MaxBody: 100, MaxBodyMemory: 1 << 20, MaxConcurrent: 1})
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		status int // 0: it is read
	}{
		"empty":                   {bytes.NewReader(nil), 0, 0},
		"at the limit":            {bytes.NewReader(make([]byte, 100)), 100, 0},
		"of unknown length":       {iotest.OneByteReader(bytes.NewReader(make([]byte, 100))), -1, 0},
		"announced as too large":  {bytes.NewReader(nil), 101, http.StatusRequestEntityTooLarge},
		"too large after all":     {bytes.NewReader(make([]byte, 101)), -1, http.StatusRequestEntityTooLarge},
		"cut off":                 {iotest.ErrReader(io.ErrUnexpectedEOF), 50, http.StatusBadRequest},
		"limited by another":      {iotest.ErrReader(&http.MaxBytesError{Limit: 7}), -1, http.StatusRequestEntityTooLarge},
		"shorter than announced":  {bytes.NewReader(make([]byte, 10)), 50, 0},
		"the error comes at last": {iotest.DataErrReader(bytes.NewReader(make([]byte, 100))), 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", c.body)
			r.ContentLength = c.length
			memory := g.bodies.budget.Claim()
			defer memory.Release()
			body, refusal := g.readBody(r.Context(), httptest.NewRecorder(), r, memory)
			if c.status == 0 {
				if refusal != nil {
					t.Error(refusal)
				}
				return
			}
			if refusal == nil || refusal.Status != c.status {
				t.Errorf("%d bytes, %v; want %d", len(body), refusal, c.status)
			}
		})
	}
}

// TestSlowBody: a client that does not go on, or too slowly, is not waited for;
// one that sends in bursts is.
func TestSlowBody(t *testing.T) {
	const second, timeout = time.Second, http.StatusRequestTimeout
	for name, c := range map[string]struct {
		pieces []piece
		status int // 0: it is read
		after  time.Duration
	}{
		"quick":                 {[]piece{{0, 10}, {0, 10}}, 0, 0},
		"in bursts":             {[]piece{{14 * second, 20 << 10}, {14 * second, 20 << 10}, {14 * second, 1}}, 0, 42 * second},
		"at the least rate":     {slices.Repeat([]piece{{second, minPace}}, 100), 0, 100 * second},
		"silent from the start": {[]piece{{time.Hour, 1}}, timeout, 15 * second},
		"silent in the middle":  {[]piece{{second, 1 << 20}, {time.Hour, 1}}, timeout, 16 * second},
		"a byte a second":       {append([]piece{{0, 1 << 20}}, slices.Repeat([]piece{{second, 1}}, 100)...), timeout, 15 * second},
		"below the least rate":  {slices.Repeat([]piece{{second, minPace * 9 / 10}}, 1000), timeout, 140 * second},
		"for ever":              {slices.Repeat([]piece{{second, 2 * minPace}}, 1000), timeout, maxBodyTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &slowBody{pieces: c.pieces, expired: make(chan struct{})}
			g := New(nil, Options{MaxBody: 4 << 20, MaxBodyMemory: 16 << 20, MaxConcurrent: 1})
			start, memory := time.Now(), g.bodies.budget.Claim()
			text, refusal := g.readBody(t.Context(), body.writer(), httptest.NewRequest(http.MethodPost, "/", body), memory)
			if took := time.Since(start); took.Round(5*second) != c.after.Round(5*second) {
				t.Errorf("%s: after %s", name, took)
			}
			if c.status == 0 {
				if refusal != nil || len(text) != body.sent {
					t.Errorf("%s: %d bytes, %v", name, len(text), refusal)
				}
				time.Sleep(time.Hour)
				select {
				case <-body.expired:
					t.Errorf("%s: the connection expires after the body", name)
				default:
				}
			} else if refusal == nil || refusal.Status != c.status {
				t.Errorf("%s: %d bytes, %v", name, len(text), refusal)
			}
			if memory.Release(); g.BodyMemory() != 0 {
				t.Errorf("%s: %d bytes are left", name, g.BodyMemory())
			}
		})
	}
}

// TestTrickle: over HTTP/1 a client that goes on too slowly is told, and its
// connection is closed.
func TestTrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := exitingGateway(t, Options{MaxBody: 1 << 20, MaxBodyMemory: 4 << 20, MaxConcurrent: 1, Logger: discard()})
		ours, theirs := net.Pipe()
		server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, refusal := g.accept(g.newExchange(w, r), chatCodec{})
			g.refuse(w, r, refusal)
		})}
		go func() { _ = server.Serve(&oneConn{conn: theirs}) }()
		defer server.Close()
		var trickle sync.WaitGroup
		defer trickle.Wait()
		trickle.Go(func() {
			_, err := fmt.Fprintf(ours, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n%400000d", 1)
			for err == nil {
				time.Sleep(time.Second)
				_, err = ours.Write([]byte(" "))
			}
		})
		start := time.Now()
		answer, err := io.ReadAll(ours)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) || !bytes.Contains(answer, []byte("Connection: close")) ||
			!bytes.Contains(answer, []byte(`"code":"request_timeout"`)) || time.Since(start) > paceGrace+5*time.Second {
			t.Errorf("after %s: %v %s", time.Since(start), err, answer)
		}
	})
}

// piece is a part of a body after a pause.
type piece struct {
	after time.Duration
	bytes int
}

// slowBody is a body that comes in pieces, until its deadline.
type slowBody struct {
	text    string // what it says; empty: zeros
	pieces  []piece
	sent    int
	expired chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pieces) == 0 {
		return 0, io.EOF
	}
	next := &b.pieces[0]
	select {
	case <-time.After(next.after):
	case <-b.expired:
		return 0, os.ErrDeadlineExceeded
	}
	n := min(next.bytes, len(p))
	*next = piece{0, next.bytes - n}
	if next.bytes == 0 {
		b.pieces = b.pieces[1:]
	}
	if b.text != "" {
		copy(p[:n], b.text[b.sent:])
	}
	b.sent += n
	return n, nil
}

// writer is the response writer of the body's connection.
func (b *slowBody) writer() http.ResponseWriter {
	return &expiring{httptest.NewRecorder(), b.expired}
}

type expiring struct {
	*httptest.ResponseRecorder
	expired chan struct{}
}

func (w *expiring) SetReadDeadline(time.Time) error {
	close(w.expired)
	return nil
}

// TestBodyMemory: a body that finds no room is refused, before it is read if its
// length is known, and leaves none taken. Small ones find some while large ones
// have taken what they may.
func TestBodyMemory(t *testing.T) {
	const most = 4 << 20
	g := New(nil, Options{MaxBody: most, MaxBodyMemory: 4 * most, MaxConcurrent: 1})
	read := func(body io.Reader, length int64) (*budget.Claim, []byte, *apierror.Error) {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.ContentLength = length
		memory := g.bodies.budget.Claim()
		text, refusal := g.readBody(r.Context(), httptest.NewRecorder(), r, memory)
		return memory, text, refusal
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	for g.bodies.budget.Claim().Fits(int64(len(large)) + 2*chunkSize) {
		if _, text, refusal := read(iotest.HalfReader(bytes.NewReader(large)), int64(len(large))); refusal != nil || !bytes.Equal(text, large) {
			t.Fatal(len(text), refusal)
		}
	}
	before := g.BodyMemory()
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
	}{
		"announced":     {iotest.ErrReader(errors.New("it is read")), 3 << 20},
		"not announced": {bytes.NewReader(large), -1},
	} {
		memory, _, refusal := read(c.body, c.length)
		if refusal == nil || refusal.Status != http.StatusServiceUnavailable || refusal.Code != "codex_body_memory" || refusal.RetryAfter == 0 {
			t.Errorf("%s: %v", name, refusal)
		}
		if memory.Release(); g.BodyMemory() != before {
			t.Errorf("%s: %d bytes are held, %d before", name, g.BodyMemory(), before)
		}
	}
	if _, text, refusal := read(bytes.NewReader(large[:1<<20-chunkSize]), 1<<20-chunkSize); refusal != nil || len(text) != 1<<20-chunkSize {
		t.Error("a small one:", refusal)
	}
}

// TestReadBodies: bodies of any length are read whole, whatever was announced,
// and what they take is in their claims.
func TestReadBodies(t *testing.T) {
	b := newBodies(1<<40, 1<<30)
	text := bytes.Repeat([]byte("0123456789"), 30_000)
	for _, length := range []int{0, 1, 1000, chunkSize - 1, chunkSize, chunkSize + 1, 2 * chunkSize, 3*chunkSize - 1, len(text)} {
		for _, announced := range []int64{-1, 0, 10, int64(length), 1 << 30} {
			memory := b.budget.Claim()
			got, err := b.read(iotest.HalfReader(bytes.NewReader(text[:length])), announced, memory)
			if err != nil || !bytes.Equal(got, text[:length]) || memory.Size() < int64(cap(got)) || memory.Size() > 2*int64(length)+8 {
				t.Errorf("%d bytes, %d announced: %d bytes, %d claimed, %v", length, announced, len(got), memory.Size(), err)
			}
			memory.Release()
		}
	}
	broken := errors.New("broken")
	for _, from := range []io.Reader{iotest.ErrReader(broken), io.MultiReader(bytes.NewReader(text), iotest.ErrReader(broken))} {
		memory := b.budget.Claim()
		if _, err := b.read(from, -1, memory); !errors.Is(err, broken) {
			t.Error(err)
		}
		memory.Release()
	}
	if b.budget.Held() != 0 {
		t.Errorf("%d bytes are left", b.budget.Held())
	}
}

// TestQueueFullBeforeBody: where no turn can run nor wait, the body is not read.
func TestQueueFullBeforeBody(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 400, MaxConcurrent: 1})
	leave, refusal := g.admit(t.Context(), "", 1)
	if refusal != nil {
		t.Fatal(refusal)
	}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("it is read")))
	if _, refusal := g.accept(g.newExchange(httptest.NewRecorder(), r), chatCodec{}); refusal == nil || refusal.Code != "codex_queue_full" {
		t.Error(refusal)
	}
	leave()
	if _, refusal := g.accept(g.newExchange(httptest.NewRecorder(), r), chatCodec{}); refusal == nil || !strings.Contains(refusal.Message, "it is read") {
		t.Error(refusal)
	}
}

// TestCopies: few large bodies are copied at once, the others wait for a time;
// small ones need not.
func TestCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBodies(4<<20, 1<<20)
		var done []func()
		for range bigCopies {
			one, err := b.copies(t.Context(), bigBody+1)
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, one)
		}
		start := time.Now()
		if _, err := b.copies(t.Context(), bigBody+1); !errors.Is(err, errCopyWait) || time.Since(start) != copyWait {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		left := errors.New("left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
		defer cancel()
		if _, err := b.copies(ctx, bigBody+1); !errors.Is(err, left) {
			t.Error(err)
		}
		if _, err := b.copies(t.Context(), bigBody); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { done[0](); done[0]() })
		if one, err := b.copies(t.Context(), bigBody+1); err != nil {
			t.Error(err)
		} else {
			one()
		}
		if done[1](); len(b.copying) != 0 {
			t.Errorf("%d are left", len(b.copying))
		}
	})
}

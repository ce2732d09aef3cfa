package reqbody

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/claims"
)

// TestSlowBody: a client that does not go on, or too slowly, is not waited for;
// one that sends in bursts is.
func TestSlowBody(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		pieces []piece
		slow   bool
		after  time.Duration
	}{
		"quick":                 {[]piece{{0, 10}, {0, 10}}, false, 0},
		"in bursts":             {[]piece{{14 * second, 20 << 10}, {14 * second, 20 << 10}, {14 * second, 1}}, false, 42 * second},
		"at the least rate":     {slices.Repeat([]piece{{second, MinRate}}, 100), false, 100 * second},
		"silent from the start": {[]piece{{time.Hour, 1}}, true, 15 * second},
		"silent in the middle":  {[]piece{{second, 1 << 20}, {time.Hour, 1}}, true, 16 * second},
		"a byte a second":       {append([]piece{{0, 1 << 20}}, slices.Repeat([]piece{{second, 1}}, 100)...), true, 15 * second},
		"below the least rate":  {slices.Repeat([]piece{{second, MinRate * 9 / 10}}, 1000), true, 140 * second},
		"for ever":              {slices.Repeat([]piece{{second, 2 * MinRate}}, 1000), true, MaxTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &slowBody{pieces: c.pieces, expired: make(chan struct{})}
			p := NewPool(16<<20, 4<<20, claims.NewCrowd(nil))
			start, memory := time.Now(), p.Claim("a")
			text, err := p.Read(t.Context(), body.writer(), httptest.NewRequest(http.MethodPost, "/", body), memory, new([]byte))
			if took := time.Since(start); took.Round(5*second) != c.after.Round(5*second) {
				t.Errorf("%s: after %s", name, took)
			}
			if !c.slow {
				if err != nil || len(text) != body.sent {
					t.Errorf("%s: %d bytes, %v", name, len(text), err)
				}
				time.Sleep(time.Hour)
				select {
				case <-body.expired:
					t.Errorf("%s: the connection expires after the body", name)
				default:
				}
			} else if !errors.Is(err, ErrTooSlow) {
				t.Errorf("%s: %d bytes, %v", name, len(text), err)
			}
			if memory.Release(); p.Held() != 0 {
				t.Errorf("%s: %d bytes are left", name, p.Held())
			}
		})
	}
}

// TestSlowBodies: each of several slow clients is cut at its own time, whatever the others do.
func TestSlowBodies(t *testing.T) {
	const second = time.Second
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(16<<20, 4<<20, claims.NewCrowd(nil))
		var all sync.WaitGroup
		read := func(after, took time.Duration, pieces ...piece) {
			all.Go(func() {
				time.Sleep(after)
				body, memory := &slowBody{pieces: pieces, expired: make(chan struct{})}, p.Claim("a")
				defer memory.Release()
				start := time.Now()
				_, err := p.Read(t.Context(), body.writer(), httptest.NewRequest(http.MethodPost, "/", body), memory, new([]byte))
				if time.Since(start) != took || !errors.Is(err, ErrTooSlow) {
					t.Errorf("the one after %s: %v after %s, not %s", after, err, time.Since(start), took)
				}
			})
		}
		silent := piece{time.Hour, 1}
		read(0, 15*second, silent)
		read(10*second, 15*second, silent)
		read(11*second, 27*second, piece{12 * second, 20 << 10}, silent)
		read(12*second, 16*second, piece{second, 2 << 10}, silent)
		read(time.Minute, 15*second, silent)
		all.Wait()
	})
}

// TestPaceStep checks that a client that adds a millisecond at a time is not looked at each time, but
// at the latest minCheckInterval after its time is over.
func TestPaceStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, cut := time.Now(), time.Time{}
		r := newBodyReader(t.Context(), deadlineWriter{httptest.NewRecorder(), func() { cut = time.Now() }}, http.NoBody)
		for i := range 50 {
			r.deadline.Store(int64(maxSilence + time.Duration(i)*time.Millisecond))
			time.Sleep(maxSilence/50 + time.Millisecond)
		}
		time.Sleep(minCheckInterval)
		synctest.Wait()
		if want := maxSilence + minCheckInterval; cut.Sub(start) != want || !r.close() {
			t.Errorf("cut after %s, want %s", cut.Sub(start), want)
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
	b.sent += n
	return n, nil
}

func (b *slowBody) writer() http.ResponseWriter {
	return deadlineWriter{httptest.NewRecorder(), func() { close(b.expired) }}
}

// TestBodyMemory: a body that finds no room is refused, before it is read if its length is known,
// and leaves none taken. Small ones find some while large ones have taken what they may.
func TestBodyMemory(t *testing.T) {
	const most = 4 << 20
	p := NewPool(4*most, most, claims.NewCrowd(nil))
	read := func(body io.Reader, length int64) (*claims.Claim, []byte, error) {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.ContentLength = length
		memory := p.Claim("a")
		text, err := p.Read(r.Context(), httptest.NewRecorder(), r, memory, new([]byte))
		return memory, text, err
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	for p.Claim("a").Fits(int64(len(large)) + 2*chunkSize) {
		if _, text, err := read(iotest.HalfReader(bytes.NewReader(large)), int64(len(large))); err != nil || !bytes.Equal(text, large) {
			t.Fatal(len(text), err)
		}
	}
	before := p.Held()
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
	}{
		"announced":     {iotest.ErrReader(errors.New("it is read")), 3 << 20},
		"not announced": {bytes.NewReader(large), -1},
	} {
		memory, _, err := read(c.body, c.length)
		if !errors.Is(err, ErrNoMemory) {
			t.Errorf("%s: %v", name, err)
		}
		if memory.Release(); p.Held() != before {
			t.Errorf("%s: %d bytes are held, %d before", name, p.Held(), before)
		}
	}
	if _, text, err := read(bytes.NewReader(large[:1<<20-chunkSize]), 1<<20-chunkSize); err != nil || len(text) != 1<<20-chunkSize {
		t.Error("a small one:", err)
	}
}

// TestReadBodies: bodies of any length are read whole, whatever was announced,
// and what they take is in their claims.
func TestReadBodies(t *testing.T) {
	b := NewPool(1<<40, 1<<30, claims.NewCrowd(nil))
	text := bytes.Repeat([]byte("0123456789"), 30_000)
	for _, length := range []int{0, 1, 1000, chunkSize - 1, chunkSize, chunkSize + 1, 2 * chunkSize, 3*chunkSize - 1, len(text)} {
		for _, announced := range []int64{-1, 0, 10, int64(length), 1 << 30} {
			memory := b.Claim("a")
			got, err := b.read(iotest.HalfReader(bytes.NewReader(text[:length])), announced, memory)
			if err != nil || !bytes.Equal(got, text[:length]) || memory.Size() < int64(cap(got)) || memory.Size() > 2*int64(length)+8 {
				t.Errorf("%d bytes, %d announced: %d bytes, %d claimed, %v", length, announced, len(got), memory.Size(), err)
			}
			memory.Release()
		}
	}
	broken := errors.New("broken")
	for _, from := range []io.Reader{iotest.ErrReader(broken), io.MultiReader(bytes.NewReader(text), iotest.ErrReader(broken))} {
		memory := b.Claim("a")
		if _, err := b.read(from, -1, memory); !errors.Is(err, broken) {
			t.Error(err)
		}
		memory.Release()
	}
	if b.Held() != 0 {
		t.Errorf("%d bytes are left", b.Held())
	}
}

// TestCopies: few large bodies are copied at once, the others wait for a time; small ones need not.
func TestCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewPool(4<<20, 1<<20, claims.NewCrowd(nil))
		var done []func()
		for range maxLargeCopies {
			one, err := b.WaitToCopy(t.Context(), "a", largeBody+1)
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, one)
		}
		start := time.Now()
		if _, err := b.WaitToCopy(t.Context(), "a", largeBody+1); !errors.Is(err, ErrCopyWait) || time.Since(start) != maxCopyWait {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		left := errors.New("left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
		defer cancel()
		if _, err := b.WaitToCopy(ctx, "a", largeBody+1); !errors.Is(err, left) {
			t.Error(err)
		}
		if _, err := b.WaitToCopy(t.Context(), "a", largeBody); err != nil {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { done[0](); done[0]() })
		if one, err := b.WaitToCopy(t.Context(), "a", largeBody+1); err != nil {
			t.Error(err)
		} else {
			one()
		}
		if done[1](); b.Copying() != 0 {
			t.Errorf("%d are left", b.Copying())
		}
	})
}

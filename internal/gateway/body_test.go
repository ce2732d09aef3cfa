package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestReadBody(t *testing.T) {
	g := New(nil, Options{MaxBody: 100, MaxConcurrent: 1})
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
			body, refusal := g.readBody(httptest.NewRecorder(), r)
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

// TestSilentBody: a client that does not go on is not waited for; one that is
// slow is.
func TestSilentBody(t *testing.T) {
	for name, c := range map[string]struct {
		pauses []time.Duration // before the pieces of the body
		status int             // 0: it is read
	}{
		"quick":                 {[]time.Duration{0, 0, 0}, 0},
		"slow":                  {[]time.Duration{bodySilence - 1, bodySilence - 1, bodySilence - 1}, 0},
		"silent from the start": {[]time.Duration{time.Hour}, http.StatusRequestTimeout},
		"silent in the middle":  {[]time.Duration{time.Second, time.Hour}, http.StatusRequestTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &slowBody{pauses: c.pauses, expired: make(chan struct{})}
			g := New(nil, Options{MaxBody: 100, MaxConcurrent: 1})
			start := time.Now()
			text, refusal := g.readBody(body.writer(), httptest.NewRequest(http.MethodPost, "/", body))
			if c.status == 0 {
				if refusal != nil || len(text) != len(c.pauses) {
					t.Errorf("%s: %q, %v", name, text, refusal)
				}
				time.Sleep(time.Hour)
				select {
				case <-body.expired:
					t.Errorf("%s: the connection expires after the body", name)
				default:
				}
				return
			}
			if refusal == nil || refusal.Status != c.status || time.Since(start) > bodySilence+time.Minute {
				t.Errorf("%s: %q, %v after %s", name, text, refusal, time.Since(start))
			}
		})
	}
}

// slowBody is a body of a byte after each pause, until its deadline.
type slowBody struct {
	pauses  []time.Duration
	expired chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.pauses) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pauses[0]):
		b.pauses = b.pauses[1:]
		return copy(p, "x"), nil
	case <-b.expired:
		return 0, os.ErrDeadlineExceeded
	}
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

func TestReadAll(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 300_000)
	for _, announced := range []int64{-1, 0, 10, int64(len(want)), 1 << 40} {
		got, err := readAll(iotest.HalfReader(bytes.NewReader(want)), announced)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("announced %d: %d bytes, %v", announced, len(got), err)
		}
	}
	broken := errors.New("broken")
	if _, err := readAll(iotest.ErrReader(broken), 5); !errors.Is(err, broken) {
		t.Error(err)
	}
}

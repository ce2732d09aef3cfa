package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"
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

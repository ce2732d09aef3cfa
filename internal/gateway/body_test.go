package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestReadBody(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 1 << 20, MaxConcurrent: 1})
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
		"no memory":               {bytes.NewReader(make([]byte, 100)), 100, http.StatusServiceUnavailable},
		"cut off":                 {iotest.ErrReader(io.ErrUnexpectedEOF), 50, http.StatusBadRequest},
		"limited by another":      {iotest.ErrReader(&http.MaxBytesError{Limit: 7}), -1, http.StatusRequestEntityTooLarge},
		"shorter than announced":  {bytes.NewReader(make([]byte, 10)), 50, 0},
		"the error comes at last": {iotest.DataErrReader(bytes.NewReader(make([]byte, 100))), 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", c.body)
			r.ContentLength = c.length
			x := g.newExchange(httptest.NewRecorder(), r)
			defer x.close()
			if c.status == http.StatusServiceUnavailable {
				others := g.bodies.Claim("a")
				defer others.Release()
				for others.Grow(10) {
				}
			}
			body, _, apiErr := g.readBody(x)
			if c.status == 0 {
				if apiErr != nil {
					t.Error(apiErr)
				}
				return
			}
			if apiErr == nil || apiErr.Status != c.status {
				t.Errorf("%d bytes, %v; want %d", len(body), apiErr, c.status)
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
			_, apiErr := g.acceptAt("/v1/chat/completions", g.newExchange(w, r))
			g.refuse(w, r, apiErr)
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
			!bytes.Contains(answer, []byte(`"code":"request_timeout"`)) || time.Since(start) > 20*time.Second {
			t.Errorf("after %s: %v %s", time.Since(start), err, answer)
		}
	})
}

// TestQueueFullBeforeBody: where no turn can run nor wait, the body is not read.
func TestQueueFullBeforeBody(t *testing.T) {
	g, _ := exitingGateway(t, Options{MaxBody: 100, MaxBodyMemory: 400, MaxConcurrent: 1})
	leave, apiErr := admitTurns(t.Context(), g, "", 1)
	if apiErr != nil {
		t.Fatal(apiErr)
	}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("it is read")))
	if _, apiErr := g.acceptAt("/v1/chat/completions", g.newExchange(httptest.NewRecorder(), r)); apiErr == nil || apiErr.Code != "codex_queue_full" {
		t.Error(apiErr)
	}
	leave()
	if _, apiErr := g.acceptAt("/v1/chat/completions", g.newExchange(httptest.NewRecorder(), r)); apiErr == nil || !strings.Contains(apiErr.Message, "it is read") {
		t.Error(apiErr)
	}
}

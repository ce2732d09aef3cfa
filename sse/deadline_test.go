package sse_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/sse"
)

// pipes is a listener whose connections are pipes within the process, so that both ends can be in a
// synctest bubble. A pipe has no buffer: a client that does not read blocks the server at once.
type pipes struct {
	conns chan net.Conn
	dials atomic.Int64
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.dials.Add(1)
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve runs h behind pipes until the test ends. It returns a client for HTTP/1
// or HTTP/2, and a function that counts its connections.
func serve(t *testing.T, http2 bool, h http.HandlerFunc) (client *http.Client, dialled func() int64) {
	t.Helper()
	listener := newPipes()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	server := &http.Server{Handler: h, Protocols: protocols}
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: listener.dial, Protocols: protocols}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("closing the server: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
	})
	return &http.Client{Transport: transport}, listener.dials.Load
}

// TestStalledClient checks that the stream ends after the write timeout when the
// client stops reading, on either protocol, also some time after an earlier write.
func TestStalledClient(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[http2], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testStalledClient(t, http2) })
		})
	}
}

func testStalledClient(t *testing.T, http2 bool) {
	type outcome struct {
		err   error
		after time.Duration
	}
	result := make(chan outcome, 1)
	client, _ := serve(t, http2, func(rw http.ResponseWriter, _ *http.Request) {
		w := sse.NewWriter(rw, sse.WriterOptions{WriteTimeout: 10 * time.Second})
		if err := w.Flush(); err != nil {
			result <- outcome{err, 0}
			return
		}
		time.Sleep(7 * time.Second)
		begin := time.Now()
		frame := bytes.Repeat([]byte("x"), 64<<10)
		for {
			if err := errors.Join(w.WriteData(frame), w.Flush()); err != nil {
				result <- outcome{err, time.Since(begin)}
				return
			}
		}
	})
	resp, err := client.Get("http://pipe/")
	must.OK(t, err)
	defer resp.Body.Close()
	got := <-result
	if !errors.Is(got.err, sse.ErrStalled) {
		t.Errorf("the writer ended with %v", got.err)
	}
	if got.after != 10*time.Second {
		t.Errorf("the writer ended after %v, want 10s", got.after)
	}
}

// TestStalledEnd checks that a client that does not read what [sse.Writer.End] has left to
// the server is cut after the write timeout.
func TestStalledEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			w := sse.NewWriter(rw, sse.WriterOptions{WriteTimeout: 10 * time.Second})
			if err := errors.Join(w.WriteData([]byte("x")), w.Close()); err != nil {
				t.Error(err)
			}
		})}
		ended := make(chan error)
		go func() { ended <- server.Serve(listener) }()
		conn, err := listener.dial(t.Context(), "", "")
		must.OK(t, err)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: pipe\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if text, err := io.ReadAll(conn); err != nil || len(text) > 0 {
			t.Errorf("after the timeout: %q, %v", text, err)
		}
		_ = server.Close()
		<-ended
	})
}

// TestIdleStream checks that silence longer than the write timeout harms neither
// the stream nor the next request on the connection.
func TestIdleStream(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP1", true: "HTTP2"}[http2], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testIdleStream(t, http2) })
		})
	}
}

func testIdleStream(t *testing.T, http2 bool) {
	client, dialled := serve(t, http2, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			time.Sleep(time.Minute)
			_, _ = io.WriteString(rw, "plain")
			return
		}
		w := sse.NewWriter(rw, sse.WriterOptions{WriteTimeout: time.Second})
		err := w.Flush()
		time.Sleep(time.Minute)
		err = errors.Join(err, w.WriteData([]byte("x")))
		time.Sleep(time.Minute)
		if err = errors.Join(err, w.Close()); err != nil {
			t.Errorf("the idle stream: %v", err)
		}
	})
	requests := []struct{ path, want string }{{"/events", "data: x\n\n"}, {"/plain", "plain"}}
	for _, request := range requests {
		resp, err := client.Get("http://pipe" + request.path)
		must.OK(t, err)
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != request.want {
			t.Errorf("%s: read %q, %v", request.path, body, err)
		}
		must.OK(t, resp.Body.Close())
	}
	if n := dialled(); n != 1 {
		t.Errorf("%d connections, want one for both requests", n)
	}
}

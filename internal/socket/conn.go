package socket

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

// conn is a WebSocket. It answers one request after the other.
type conn struct {
	ws        *websocket.Conn
	handshake *http.Request
	handle    Handler
	opened    time.Time
	served    int

	messages chan *message
	blocked  atomic.Bool // a message waits for its turn, so that nobody reads pongs
}

// message is the body of a request. over is closed when it has been read.
type message struct {
	from io.Reader
	err  error // the end; what from reads afterwards is of the next message
	over chan struct{}
}

// Read implements [io.Reader].
func (m *message) Read(p []byte) (n int, err error) {
	if m.err != nil {
		return 0, m.err
	}
	if n, m.err = m.from.Read(p); m.err != nil {
		close(m.over)
	}
	return n, m.err
}

// serve answers requests until one side ends the connection, or end ends and no request
// is being answered.
func (c *conn) serve(end context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.handshake.Context()))
	var others sync.WaitGroup
	defer others.Wait()
	defer func() { _ = c.ws.CloseNow() }()
	defer cancel()
	for _, other := range []func(context.Context){c.read, c.ping} {
		others.Go(func() {
			defer cancel()
			other(ctx)
		})
	}
	oldAge := time.After(maxAge)
	for {
		select {
		case m := <-c.messages:
			if !c.answer(ctx, m) {
				return
			}
		case <-ctx.Done():
			return
		case <-end.Done():
			_ = c.ws.Close(websocket.StatusServiceRestart, "")
			return
		case <-oldAge:
			_ = c.ws.Close(websocket.StatusGoingAway, "the connection is an hour old")
			return
		}
	}
}

// read passes messages on, one at a time. While an answer is made it waits for the next
// message, so that it notices that the client has left.
func (c *conn) read(ctx context.Context) {
	for {
		_, from, err := c.ws.Reader(ctx)
		if err != nil {
			return
		}
		m := &message{from: from, over: make(chan struct{})}
		c.blocked.Store(true)
		select {
		case c.messages <- m:
		case <-ctx.Done():
			return
		}
		select {
		case <-m.over:
		case <-ctx.Done():
			return
		}
		c.blocked.Store(false)
	}
}

// ping pings the client until it does not answer.
func (c *conn) ping(ctx context.Context) {
	for {
		select {
		case <-time.After(pingEvery):
		case <-ctx.Done():
			return
		}
		timed, cancel := context.WithTimeout(ctx, pongTime)
		err := c.ws.Ping(timed)
		cancel()
		if err != nil && !c.blocked.Load() {
			return
		}
	}
}

// answer answers a request. It reports false if the connection is of no more use.
func (c *conn) answer(ctx context.Context, m *message) (usable bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := &answer{ctx: ctx, conn: c.ws, header: make(http.Header)}
	defer to.close()
	if time.Since(c.opened) >= maxAge {
		_ = apierror.SocketTooOld().Respond(to)
		_ = to.finish()
		return false
	}
	usable = c.handle(to, c.request(ctx, m))
	if err := to.finish(); err != nil || !usable {
		return false
	}
	_, err := io.Copy(io.Discard, m) // of a request that was refused
	return err == nil
}

// request returns the request of a message, with an id of its own.
func (c *conn) request(ctx context.Context, m *message) *http.Request {
	c.served++
	r := c.handshake.Clone(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(m), -1
	r.Header.Del("Content-Encoding")
	r.Header.Set("X-Request-Id", fmt.Sprintf("%.100s-%d", c.handshake.Header.Get("X-Request-Id"), c.served))
	return r
}

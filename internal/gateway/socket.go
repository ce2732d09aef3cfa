package gateway

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

const (
	// maxSockets is how many WebSockets a server serves at the same time.
	maxSockets = 1024
	// maxSocketAge is the age at which a WebSocket accepts no more requests. OpenAI has the same limit.
	maxSocketAge = time.Hour
	// pingEvery is how often a WebSocket is pinged. pongTimeout is how long the client may take to
	// answer.
	pingEvery   = 30 * time.Second
	pongTimeout = 2 * time.Minute
	// maxExcess is for messages above the limit of a body. A message that exceeds the limit by at
	// most maxExcess bytes is refused and discarded. A longer message ends the connection.
	maxExcess = 1 << 20
)

// socketHandler answers a request. It reports false if the connection cannot be used any more.
type socketHandler func(*socketWriter, *http.Request) (usable bool)

// acceptSocket accepts a WebSocket of a user. The caller must have checked the origin of the request r.
// handle answers the requests of the WebSocket, one after the other, until the connection ends. Each
// message becomes the body of an HTTP request. Each event of an answer becomes a message. acceptSocket
// returns an error if this server, or the user, has too many WebSockets.
func (g *Gateway) acceptSocket(w http.ResponseWriter, r *http.Request, user string, handle socketHandler) *apierror.Error {
	slot := g.sockets.Claim(user)
	defer slot.Release()
	if !slot.Grow(1) {
		return apierror.TooManySockets()
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // Accept has answered the request
	}
	ws.SetReadLimit(g.opts.MaxBody + maxExcess)
	c := &socketConn{ws: ws, handshake: r, handle: handle, opened: time.Now(), messages: make(chan *socketMessage)}
	c.serve(g.closing)
	return nil
}

// socketConn is a WebSocket. It answers one request after the other.
type socketConn struct {
	ws           *websocket.Conn
	handshake    *http.Request
	handle       socketHandler
	opened       time.Time
	requestCount int

	messages chan *socketMessage
	readBusy atomic.Bool // the method read is passing on a message: nobody reads the client's answers to pings
}

// socketMessage is the body of a request. A handler may stop reading before the end of the body. So the
// handler reads from a pipe: if it stopped in the middle of a read from the WebSocket, the
// connection would end.
type socketMessage struct {
	*io.PipeReader
	pipeWriter *io.PipeWriter
}

// serve answers requests until one side ends the connection, until the connection is maxSocketAge old, or
// until the context closing is cancelled. In the last two cases, serve first completes the answer
// that is being sent.
func (c *socketConn) serve(closing context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.handshake.Context()))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer func() { _ = c.ws.CloseNow() }()
	defer cancel()
	for _, loop := range []func(context.Context){c.read, c.ping} {
		loops.Go(func() {
			defer cancel()
			loop(ctx)
		})
	}
	oldAge := time.After(maxSocketAge)
	for {
		select {
		case m := <-c.messages:
			if !c.answer(ctx, m) {
				return
			}
		case <-ctx.Done():
			return
		case <-closing.Done():
			_ = c.ws.Close(websocket.StatusServiceRestart, "")
			return
		case <-oldAge:
			_ = c.ws.Close(websocket.StatusGoingAway, "the connection is an hour old")
			return
		}
	}
}

// read passes messages to serve, one at a time. While serve answers a request, read already waits for
// the next message, so that it notices when the client leaves.
func (c *socketConn) read(ctx context.Context) {
	for {
		_, body, err := c.ws.Reader(ctx)
		if err != nil {
			return
		}
		m := new(socketMessage)
		m.PipeReader, m.pipeWriter = io.Pipe()
		c.readBusy.Store(true)
		select {
		case c.messages <- m:
		case <-ctx.Done():
			return
		}
		_, err = io.Copy(m.pipeWriter, body)
		_ = m.pipeWriter.CloseWithError(err) // always returns nil; if err is nil, the body ends here
		if err != nil {
			<-ctx.Done() // wait until serve has sent the answer, which may be an error
			return
		}
		c.readBusy.Store(false)
	}
}

// ping pings the client, and returns when the client has not answered a ping in time. While readBusy is
// true, nobody can read the answer, so ping goes on.
func (c *socketConn) ping(ctx context.Context) {
	for {
		select {
		case <-time.After(pingEvery):
		case <-ctx.Done():
			return
		}
		timed, cancel := context.WithTimeout(ctx, pongTimeout)
		err := c.ws.Ping(timed)
		cancel()
		if err != nil && !c.readBusy.Load() {
			return
		}
	}
}

// answer answers a request. It reports false if the connection cannot be used any more.
func (c *socketConn) answer(ctx context.Context, m *socketMessage) (usable bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &socketWriter{ctx: ctx, conn: c.ws, message: m, header: make(http.Header)}
	defer w.stopTimer()
	defer func() { _ = m.Close() }() // unblocks the method read, which may wait in a write to the pipe
	if time.Since(c.opened) >= maxSocketAge {
		_ = apierror.SocketTooOld().Respond(w, c.handshake)
		_ = w.finish()
		return false
	}
	usable = c.handle(w, c.request(ctx, m))
	if err := w.finish(); err != nil || !usable {
		return false
	}
	_, err := io.Copy(io.Discard, m) // discards the rest of a request that was refused
	return err == nil
}

// request returns an HTTP request whose body is the message m. Each request has an id of its own.
func (c *socketConn) request(ctx context.Context, m *socketMessage) *http.Request {
	c.requestCount++
	r := c.handshake.Clone(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(m), -1
	r.Header.Del("Content-Encoding")
	r.Header.Set("X-Request-Id", fmt.Sprintf("%.100s-%d", c.handshake.Header.Get("X-Request-Id"), c.requestCount))
	return r
}

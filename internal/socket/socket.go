// Package socket serves requests that come over a WebSocket, one after the other. Each message
// becomes the body of an HTTP request. Each event of the answer becomes a message.
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
	"github.com/caddy-codex/caddy-codex/internal/claims"
)

const (
	// maxSockets is how many WebSockets a server serves at the same time.
	maxSockets = 1024
	// maxAge is the age at which a WebSocket accepts no more requests. OpenAI has the same limit.
	maxAge = time.Hour
	// pingEvery is how often a WebSocket is pinged. pongTimeout is how long the client may take to
	// answer.
	pingEvery   = 30 * time.Second
	pongTimeout = 2 * time.Minute
	// writeTimeout bounds the writing of a message.
	writeTimeout = 30 * time.Second
	// maxExcess is for messages above the limit of a body. A message that exceeds the limit by at
	// most maxExcess bytes is refused and discarded. A longer message ends the connection.
	maxExcess = 1 << 20
)

// Handler answers a request. It reports false if the connection cannot be used any more.
type Handler func(*Writer, *http.Request) (usable bool)

// Server serves WebSockets.
type Server struct {
	maxMessage int64
	slots      *claims.Budget  // one unit for each WebSocket
	closing    context.Context // cancelled by Close
	stop       context.CancelFunc
}

// NewServer returns a server. maxBody is the most bytes that the body of a request may have; the
// handlers enforce it. If several users have WebSockets, crowd limits each user to a share of them.
func NewServer(maxBody int64, crowd *claims.Crowd) *Server {
	closing, stop := context.WithCancel(context.Background())
	return &Server{maxMessage: maxBody + maxExcess, slots: claims.NewBudget(maxSockets, 1, crowd), closing: closing, stop: stop}
}

// Open returns how many WebSockets are open.
func (s *Server) Open() int64 { return s.slots.Held() }

// Close ends idle WebSockets immediately. A WebSocket that is answering a request ends after the
// answer. The clients connect again.
func (s *Server) Close() { s.stop() }

// Serve accepts a WebSocket of a user. The caller must have checked the origin of the request r.
// handle answers the requests of the WebSocket until the connection ends. Serve returns an error if
// there are too many WebSockets.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, user string, handle Handler) *apierror.Error {
	slot := s.slots.Claim(user)
	defer slot.Release()
	if !slot.Grow(1) {
		return apierror.TooManySockets()
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // Accept has answered the request
	}
	ws.SetReadLimit(s.maxMessage)
	c := &conn{ws: ws, handshake: r, handle: handle, opened: time.Now(), messages: make(chan *message)}
	c.serve(s.closing)
	return nil
}

// conn is a WebSocket. It answers one request after the other.
type conn struct {
	ws           *websocket.Conn
	handshake    *http.Request
	handle       Handler
	opened       time.Time
	requestCount int

	messages chan *message
	readBusy atomic.Bool // the method read is passing on a message, and does not read the client's answers to pings
}

// message is the body of a request. A handler may stop reading before the end of the body. So the
// handler reads from a pipe: if it stopped in the middle of a read from the WebSocket, the
// connection would end.
type message struct {
	*io.PipeReader
	pipeWriter *io.PipeWriter
}

// serve answers requests until one side ends the connection, until the connection is maxAge old, or
// until the context closing is cancelled. In the last two cases, serve first completes the answer
// that is being sent.
func (c *conn) serve(closing context.Context) {
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
	oldAge := time.After(maxAge)
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

// read passes messages to serve, one at a time. While serve answers a request, read already waits
// for the next message. So read notices when the client leaves.
func (c *conn) read(ctx context.Context) {
	for {
		_, body, err := c.ws.Reader(ctx)
		if err != nil {
			return
		}
		m := new(message)
		m.PipeReader, m.pipeWriter = io.Pipe()
		c.readBusy.Store(true)
		select {
		case c.messages <- m:
		case <-ctx.Done():
			return
		}
		_, err = io.Copy(m.pipeWriter, body)
		_ = m.pipeWriter.CloseWithError(err) // CloseWithError always returns nil; if err is nil, the body of the request ends here
		if err != nil {
			<-ctx.Done() // wait until serve has sent the answer, which may be an error
			return
		}
		c.readBusy.Store(false)
	}
}

// ping pings the client until the client does not answer in time. While readBusy is true, no answer
// can be read, so ping goes on without one.
func (c *conn) ping(ctx context.Context) {
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
func (c *conn) answer(ctx context.Context, m *message) (usable bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &Writer{ctx: ctx, conn: c.ws, message: m, header: make(http.Header)}
	defer w.stopTimer()
	defer func() { _ = m.Close() }() // unblocks read, which may wait in a write to the pipe
	if time.Since(c.opened) >= maxAge {
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

// request returns a message as an HTTP request. Each request has an id of its own.
func (c *conn) request(ctx context.Context, m *message) *http.Request {
	c.requestCount++
	r := c.handshake.Clone(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(m), -1
	r.Header.Del("Content-Encoding")
	r.Header.Set("X-Request-Id", fmt.Sprintf("%.100s-%d", c.handshake.Header.Get("X-Request-Id"), c.requestCount))
	return r
}

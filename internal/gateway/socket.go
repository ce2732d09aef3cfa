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
	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

const (
	// maxSockets is how many WebSockets a gateway serves at once.
	maxSockets = 1024
	// maxSocketAge is the age at which a WebSocket takes no more requests, as with OpenAI.
	maxSocketAge = time.Hour
	// pingEvery is how often a WebSocket is pinged, and pongTime how long the client may
	// take to answer.
	pingEvery = 30 * time.Second
	pongTime  = 2 * time.Minute
	// socketSlack is how many bytes above the limit of a body a message is discarded.
	socketSlack = 1 << 20
)

// socket is a WebSocket of the Responses API. It answers one request after the other, each
// like one of POST /v1/responses.
type socket struct {
	g      *Gateway
	conn   *websocket.Conn
	r      *http.Request // the handshake
	count  func(*http.Request, func(*http.Request))
	opened time.Time
	served int

	messages chan *socketMessage
	blocked  atomic.Bool // a message waits for its turn, so that nobody reads pongs

	last  *lastResponse // not stored; nil: there is none
	claim *budget.Claim // of last
}

// lastResponse is the last response of a WebSocket, which the next request may follow.
type lastResponse struct {
	id    string
	entry *responsestore.Entry // its input begins with the items of all responses before
}

// socketMessage is the body of a request. over is closed when it has been read.
type socketMessage struct {
	from io.Reader
	err  error // the end; what from reads afterwards is of the next message
	over chan struct{}
}

// Read implements [io.Reader].
func (m *socketMessage) Read(p []byte) (n int, err error) {
	if m.err != nil {
		return 0, m.err
	}
	if n, m.err = m.from.Read(p); m.err != nil {
		close(m.over)
	}
	return n, m.err
}

// Close implements [io.Closer].
func (m *socketMessage) Close() error { return nil }

// ResponsesSocket serves a WebSocket at /v1/responses, whose origin the caller has checked.
// count is called for each request, and calls the function that it is given.
func (g *Gateway) ResponsesSocket(w http.ResponseWriter, r *http.Request, count func(*http.Request, func(*http.Request))) {
	if g.sockets.Add(1) > maxSockets {
		g.sockets.Add(-1)
		g.answer(w, r, nil, apierror.TooManySockets())
		return
	}
	defer g.sockets.Add(-1)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // it has been answered
	}
	conn.SetReadLimit(g.opts.MaxBody + socketSlack)
	s := &socket{
		g: g, conn: conn, r: r, count: count, opened: time.Now(),
		messages: make(chan *socketMessage), claim: g.bodies.Claim(),
	}
	defer s.claim.Release()
	s.serve()
}

// CloseSockets ends the WebSockets that do nothing, and others after their answers. Their
// clients connect again, to the next configuration.
func (g *Gateway) CloseSockets() { g.endSockets() }

// serve answers requests until one side ends the connection.
func (s *socket) serve() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.r.Context()))
	var others sync.WaitGroup
	defer others.Wait()
	defer func() { _ = s.conn.CloseNow() }()
	defer cancel()
	others.Go(func() {
		defer cancel()
		s.read(ctx)
	})
	others.Go(func() {
		defer cancel()
		s.ping(ctx)
	})
	oldAge := time.NewTimer(maxSocketAge)
	defer oldAge.Stop()
	for {
		select {
		case m := <-s.messages:
			if !s.answer(ctx, m) {
				return
			}
		case <-ctx.Done():
			return
		case <-s.g.socketsEnd.Done():
			_ = s.conn.Close(websocket.StatusServiceRestart, "")
			return
		case <-oldAge.C:
			_ = s.conn.Close(websocket.StatusGoingAway, "the connection is an hour old")
			return
		}
	}
}

// read passes messages on, one at a time. While an answer is made it waits for the next
// message, so that it notices that the client has left.
func (s *socket) read(ctx context.Context) {
	for {
		_, message, err := s.conn.Reader(ctx)
		if err != nil {
			return
		}
		m := &socketMessage{from: message, over: make(chan struct{})}
		s.blocked.Store(true)
		select {
		case s.messages <- m:
		case <-ctx.Done():
			return
		}
		select {
		case <-m.over:
		case <-ctx.Done():
			return
		}
		s.blocked.Store(false)
	}
}

// ping pings the client until it does not answer.
func (s *socket) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		timed, cancel := context.WithTimeout(ctx, pongTime)
		err := s.conn.Ping(timed)
		cancel()
		if err != nil && !s.blocked.Load() {
			return
		}
	}
}

// answer answers a request. It reports false if the connection is of no more use.
func (s *socket) answer(ctx context.Context, m *socketMessage) (usable bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.served++
	r := s.r.Clone(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodPost, m, -1
	r.Header.Del("Content-Encoding")
	r.Header.Set("X-Request-Id", fmt.Sprintf("%.100s-%d", requestID(s.r), s.served))
	to := newSocketAnswer(ctx, s.conn)
	defer to.close()
	if time.Since(s.opened) >= maxSocketAge {
		_ = apierror.SocketTooOld().Respond(to)
		_ = to.finish()
		return false
	}
	var outcome requestOutcome
	s.count(r, func(r *http.Request) {
		x := s.g.newExchange(to, r)
		defer x.close()
		outcome = s.g.handle(x, socketCodec{responsesCodec{s.g}, s})
		s.g.report(r, outcome)
	})
	if err := to.finish(); err != nil || outcome.cut() {
		return false
	}
	_, err := io.Copy(io.Discard, m) // of a request that was refused
	return err == nil
}

// socketCodec is the codec of the messages of a WebSocket.
type socketCodec struct {
	responsesCodec
	s *socket
}

func (c socketCodec) decode(body []byte) (decodedRequest, *apierror.Error) {
	q, apiErr := c.decodeCreate(body)
	if apiErr != nil {
		return nil, apiErr
	}
	q.socket = c.s
	return q, nil
}

// find returns the last response of a user, if that is its id.
func (s *socket) find(id string) *responsestore.Entry {
	if s == nil || s.last == nil || s.last.id != id {
		return nil
	}
	return s.last.entry
}

// remember keeps a response that is not stored for the next request. It forgets the one
// before, which clients do not follow any more.
func (s *socket) remember(id string, e *responsestore.Entry) {
	s.last = nil
	s.claim.Release()
	if s.claim.Grow(e.Size()) {
		s.last = &lastResponse{id, e}
	}
}

// socketStore is the store that a request over a WebSocket reads from.
type socketStore struct {
	responsestore.Store // nil: nothing is stored
	s                   *socket
}

// Get implements [responsestore.Store].
func (s socketStore) Get(ctx context.Context, user, id string) (*responsestore.Entry, error) {
	if e := s.s.find(id); e != nil {
		return e, nil
	}
	if s.Store == nil {
		return nil, responsestore.ErrNotFound
	}
	return s.Store.Get(ctx, user, id)
}

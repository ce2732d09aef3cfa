// Package socket serves requests that come over a WebSocket, one after the other, each as
// an HTTP request whose body is a message. The events of its answer become messages.
package socket

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
)

const (
	// maxSockets is how many WebSockets a server serves at once.
	maxSockets = 1024
	// maxAge is the age at which a WebSocket takes no more requests, as with OpenAI.
	maxAge = time.Hour
	// pingEvery is how often a WebSocket is pinged, and pongTime how long the client may
	// take to answer.
	pingEvery = 30 * time.Second
	pongTime  = 2 * time.Minute
	// writeTimeout bounds the writing of a message.
	writeTimeout = 30 * time.Second
	// slack is how many bytes above the limit of a body a message is discarded.
	slack = 1 << 20
)

// Handler answers a request. It reports false if the connection is of no more use.
type Handler func(http.ResponseWriter, *http.Request) (usable bool)

// Server serves WebSockets.
type Server struct {
	maxMessage int64
	open       atomic.Int64
	end        context.Context
	stop       context.CancelFunc
}

// NewServer returns a server for bodies of at most maxBody bytes, which handlers enforce.
func NewServer(maxBody int64) *Server {
	end, stop := context.WithCancel(context.Background())
	return &Server{maxMessage: maxBody + slack, end: end, stop: stop}
}

// Close ends the WebSockets that do nothing, and others after their answers. Their clients
// connect again.
func (s *Server) Close() { s.stop() }

// Serve accepts a WebSocket, whose origin the caller has checked, and lets handle answer
// its requests until one side ends it. It returns an error if there are too many.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, handle Handler) *apierror.Error {
	defer s.open.Add(-1)
	if s.open.Add(1) > maxSockets {
		return apierror.TooManySockets()
	}
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // it has been answered
	}
	ws.SetReadLimit(s.maxMessage)
	c := &conn{ws: ws, handshake: r, handle: handle, opened: time.Now(), messages: make(chan *message)}
	c.serve(s.end)
	return nil
}

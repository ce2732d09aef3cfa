package replay

import (
	"context"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// socket is a listener with one connection, and the client of a WebSocket over it.
type socket struct {
	server, client net.Conn
	accepted       bool
	closed         chan struct{}
}

// serveSocket serves a request over a WebSocket, until ctx ends or the gateway ends the connection.
func serveSocket(ctx context.Context, g *gateway.Gateway, route *gateway.Route, r *http.Request, message []byte) {
	s := &socket{closed: make(chan struct{})}
	s.server, s.client = net.Pipe()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, handshake *http.Request) {
		g.ServeSocket(route, w, handshake, func(r *http.Request, serve func(*http.Request)) { serve(r) })
	})}
	go func() { _ = server.Serve(s) }()
	defer server.Close()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return s.client, nil }}
	ws, _, err := websocket.Dial(ctx, "ws://replay"+r.URL.Path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, HTTPHeader: r.Header})
	if err != nil {
		return // the request does not end, which is told
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	err = ws.Write(ctx, websocket.MessageText, message)
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
}

// Accept implements [net.Listener].
func (s *socket) Accept() (net.Conn, error) {
	if !s.accepted {
		s.accepted = true
		return s.server, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (s *socket) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// Addr implements [net.Listener].
func (s *socket) Addr() net.Addr { return s.server.LocalAddr() }

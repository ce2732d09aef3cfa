package scriptedmodel

import (
	"net"

	"github.com/coder/websocket"
)

// Mishap is a fault of a WebSocket.
type Mishap int

// The mishaps.
const (
	// Goodbye closes the WebSocket, like a server that is about to stop.
	Goodbye Mishap = iota
	// Reset breaks the TCP connection.
	Reset
	// Expire refuses the next request, as on a WebSocket that is an hour old, and
	// then closes the WebSocket.
	Expire
	// Forget makes the server refuse a request that continues the last response.
	Forget
)

// Strike causes a mishap for all open WebSockets, even in the middle of a response,
// and returns their number.
func (s *Server) Strike(m Mishap) int {
	sockets := s.sockets.list()
	for _, sock := range sockets {
		sock.strike(m)
	}
	return len(sockets)
}

func (sock *socket) strike(m Mishap) {
	switch m {
	case Goodbye:
		_ = sock.conn.Close(websocket.StatusGoingAway, "the server is about to stop")
	case Reset:
		if tcp, ok := sock.tcp.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // drops unsent bytes
		}
		_ = sock.tcp.Close()
	case Expire:
		sock.mu.Lock()
		defer sock.mu.Unlock()
		sock.expired = true
	case Forget:
		sock.mu.Lock()
		defer sock.mu.Unlock()
		sock.forget = true // sock.last may not be set yet
	}
}

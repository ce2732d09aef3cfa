package scriptedmodel

import (
	"net"

	"github.com/coder/websocket"
)

// Mishap is what may befall a WebSocket.
type Mishap int

// The mishaps.
const (
	// Goodbye closes the WebSocket as a server does that is about to stop.
	Goodbye Mishap = iota
	// Reset breaks the TCP connection.
	Reset
	// Expire refuses the next request as on a WebSocket that is an hour old, and
	// closes it then.
	Expire
	// Forget forgets the last response: a request that goes on from it is refused.
	Forget
)

// Strike lets a mishap befall all open WebSockets, also in the middle of a
// response, and returns how many there were.
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
			_ = tcp.SetLinger(0) // what is left unsent is dropped
		}
		_ = sock.tcp.Close()
	case Expire:
		sock.mu.Lock()
		defer sock.mu.Unlock()
		sock.expired = true
	case Forget:
		sock.mu.Lock()
		defer sock.mu.Unlock()
		sock.forget = true // the last response may be on its way to sock.last
	}
}

package scriptedmodel

import "sync"

// socketSet counts the handlers of WebSockets.
type socketSet struct {
	mu       sync.Mutex
	closed   bool
	handlers sync.WaitGroup
	open     map[*socket]bool
}

// add adds a WebSocket until remove is called.
func (set *socketSet) add(sock *socket) (remove func()) {
	set.mu.Lock()
	defer set.mu.Unlock()
	if set.open == nil {
		set.open = make(map[*socket]bool)
	}
	set.open[sock] = true
	return func() {
		set.mu.Lock()
		defer set.mu.Unlock()
		delete(set.open, sock)
	}
}

// CutSockets cuts all WebSockets, as a provider that restarts.
func (s *Server) CutSockets() {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	for sock := range s.sockets.open {
		_ = sock.conn.CloseNow() // only fails for one that is closed already
	}
}

// begin counts a handler, or returns false if the server is closed.
func (set *socketSet) begin() bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	if !set.closed {
		set.handlers.Add(1)
	}
	return !set.closed
}

// wait waits for all handlers and prevents new ones.
func (set *socketSet) wait() {
	set.mu.Lock()
	set.closed = true
	set.mu.Unlock()
	set.handlers.Wait()
}

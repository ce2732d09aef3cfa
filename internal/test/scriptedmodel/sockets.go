package scriptedmodel

import (
	"maps"
	"slices"
	"sync"
)

// socketSet holds the open WebSockets.
type socketSet struct {
	mu       sync.Mutex
	open     map[*socket]bool
	closed   bool
	handlers sync.WaitGroup
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

// set adds or removes a WebSocket.
func (set *socketSet) set(sock *socket, open bool) {
	set.mu.Lock()
	defer set.mu.Unlock()
	if delete(set.open, sock); open {
		set.open[sock] = true
	}
}

func (set *socketSet) list() []*socket {
	set.mu.Lock()
	defer set.mu.Unlock()
	return slices.Collect(maps.Keys(set.open))
}

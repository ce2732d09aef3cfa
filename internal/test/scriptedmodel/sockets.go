package scriptedmodel

import "sync"

// socketSet counts the handlers of WebSockets.
type socketSet struct {
	mu       sync.Mutex
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

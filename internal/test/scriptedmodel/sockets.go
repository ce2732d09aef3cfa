package scriptedmodel

import "sync"

// socketSet holds the open WebSockets.
type socketSet struct {
	mu     sync.Mutex
	open   map[*socket]struct{}
	closed bool
	all    sync.WaitGroup
}

// begin counts a handler until end, or returns false if the server is closed.
func (set *socketSet) begin() bool {
	set.mu.Lock()
	defer set.mu.Unlock()
	if !set.closed {
		set.all.Add(1)
	}
	return !set.closed
}

func (set *socketSet) end() { set.all.Done() }

// wait waits for all handlers and prevents new ones.
func (set *socketSet) wait() {
	set.mu.Lock()
	set.closed = true
	set.mu.Unlock()
	set.all.Wait()
}

func (set *socketSet) add(sock *socket) {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.open[sock] = struct{}{}
}

func (set *socketSet) remove(sock *socket) {
	set.mu.Lock()
	defer set.mu.Unlock()
	delete(set.open, sock)
}

func (set *socketSet) list() (sockets []*socket) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for sock := range set.open {
		sockets = append(sockets, sock)
	}
	return sockets
}

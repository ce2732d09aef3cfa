package conversation

import (
	"context"
	"sync"
	"time"
)

// coming has the threads that will be kept in a moment. They are needed since a client can send its
// next request when it has read the end of an answer, but the turn ends only later. The zero value
// has no threads. All methods are safe for concurrent use.
type coming struct {
	mu     sync.Mutex
	byHash map[Hash]*announcement
}

// announcement says that a thread will be kept. A nil announcement says nothing.
type announcement struct {
	in   *coming
	hash Hash
	done chan struct{} // closed by end; nil: nobody waits
}

// announce says that a thread will be kept under a hash. The caller ends the announcement when the
// thread is kept, or when it will not be kept after all. announce returns nil if the same hash is
// announced already: then it is the same answer to the same history.
func (c *coming) announce(hash Hash) *announcement {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash[hash] != nil {
		return nil
	}
	if c.byHash == nil {
		c.byHash = make(map[Hash]*announcement)
	}
	a := &announcement{in: c, hash: hash}
	c.byHash[hash] = a
	return a
}

// end ends the announcement. Another call does nothing.
func (a *announcement) end() {
	if a == nil {
		return
	}
	a.in.mu.Lock()
	defer a.in.mu.Unlock()
	if a.in.byHash[a.hash] != a {
		return
	}
	delete(a.in.byHash, a.hash)
	if a.done != nil {
		close(a.done)
	}
}

// comingTimeout bounds the wait for a thread that is about to be kept. After that a fresh thread is
// started.
const comingTimeout = 2 * time.Second

// wait waits for the thread of the newest answer in a history, if that thread is announced. It
// waits until the thread has arrived or ctx is done, for two seconds at most. It reports whether it
// has waited.
func (c *coming) wait(ctx context.Context, links []Link) bool {
	if len(links) == 0 {
		return false
	}
	done := c.announced(links[len(links)-1].Hash)
	if done == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, comingTimeout)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return true
}

// announced returns a channel that is closed when the thread with a hash has arrived, or nil
// if none is announced.
func (c *coming) announced(hash Hash) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.byHash[hash]
	if a == nil {
		return nil
	}
	if a.done == nil {
		a.done = make(chan struct{})
	}
	return a.done
}

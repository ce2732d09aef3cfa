package conversation

import (
	"context"
	"sync"
	"time"
)

// coming lists the threads that will soon be kept, which means that they wait for the next request
// of their conversation. A client may send that request before the last turn has quite ended; the
// request then waits for the thread. The zero value is empty. A coming is safe for concurrent use.
type coming struct {
	mu     sync.Mutex
	byHash map[Hash]*announcement
}

// announcement is the entry of a thread that will soon be kept. It may be nil: then end does
// nothing.
type announcement struct {
	in   *coming
	hash Hash
	done chan struct{} // closed by end; nil: nobody waits
}

// announce adds an entry for a thread that will soon be kept. hash identifies the thread's history.
// The caller must end the announcement when the thread is kept, or will not be kept after all.
// announce returns nil if another thread with the same history is announced already.
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

// end ends the announcement, and so wakes the requests that wait for it. A second call does
// nothing.
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

// comingTimeout bounds the wait for a thread that will soon be kept. After that, the request gets
// another thread.
const comingTimeout = 2 * time.Second

// wait waits, at most comingTimeout, until the announcement for the newest answer in a history has
// ended. If there is no such announcement, it returns false at once.
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

// announced returns a channel that is closed when the announcement with this hash ends, or nil if
// there is none.
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

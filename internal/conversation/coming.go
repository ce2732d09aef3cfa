package conversation

import (
	"context"
	"sync"
	"time"
)

// Coming knows the threads that will be kept in a moment. A client can send its next
// request as soon as it has read the end of an answer, which is before the turn has ended.
// The zero value knows none. All methods are safe for concurrent use.
type Coming struct {
	mu     sync.Mutex
	byHash map[Hash]chan struct{}
}

// Announce says that a thread will be kept under a hash. The caller calls arrived once it
// is kept, or will not be; more calls of it do nothing.
func (c *Coming) Announce(hash Hash) (arrived func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byHash[hash] != nil {
		return func() {} // the same answer to the same history: the first one counts
	}
	done := make(chan struct{})
	if c.byHash == nil {
		c.byHash = make(map[Hash]chan struct{})
	}
	c.byHash[hash] = done
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byHash, hash)
		close(done)
	})
}

// comingTimeout bounds the wait for a thread that is about to be kept. Starting a fresh
// one is the way out.
const comingTimeout = 2 * time.Second

// Wait waits for the thread of the newest answer in a history, if it is announced, until
// it has arrived or ctx is done, for two seconds at most. It reports whether it has waited.
func (c *Coming) Wait(ctx context.Context, links []Link) bool {
	if len(links) == 0 {
		return false
	}
	c.mu.Lock()
	done := c.byHash[links[len(links)-1].Hash]
	c.mu.Unlock()
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

package conversation

import (
	"context"
	"sync"
	"time"
)

// announcements lists the threads that will soon be kept, which means that they wait for the next request
// of their conversation. A client may send that request before the last turn has quite ended; the
// request then waits for the thread. The zero value is empty. An announcements is safe for concurrent use.
type announcements struct {
	mu     sync.Mutex
	byHash map[Hash]*announcement
}

// announcement is the entry of a thread that will soon be kept. It may be nil: then end does
// nothing.
type announcement struct {
	list *announcements
	hash Hash
	done chan struct{} // closed by end; nil: nobody waits
}

// announce adds an entry for a thread that will soon be kept. hash identifies the thread's history.
// The caller must end the announcement when the thread is kept, or will not be kept after all.
// announce returns nil if another thread with the same history is announced already.
func (l *announcements) announce(hash Hash) *announcement {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byHash[hash] != nil {
		return nil
	}
	if l.byHash == nil {
		l.byHash = make(map[Hash]*announcement)
	}
	a := &announcement{list: l, hash: hash}
	l.byHash[hash] = a
	return a
}

// end ends the announcement, and so wakes the requests that wait for it. A second call does
// nothing.
func (a *announcement) end() {
	if a == nil {
		return
	}
	a.list.mu.Lock()
	defer a.list.mu.Unlock()
	if a.list.byHash[a.hash] != a {
		return
	}
	delete(a.list.byHash, a.hash)
	if a.done != nil {
		close(a.done)
	}
}

// announcementTimeout bounds the wait for a thread that will soon be kept. After that, the request gets
// another thread.
const announcementTimeout = 2 * time.Second

// wait waits, at most announcementTimeout, until the announcement for the newest answer in a history has
// ended. If there is no such announcement, it returns false at once.
func (l *announcements) wait(ctx context.Context, links []Link) bool {
	if len(links) == 0 {
		return false
	}
	done := l.doneChannel(links[len(links)-1].Hash)
	if done == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, announcementTimeout)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return true
}

// doneChannel returns a channel that is closed when the announcement with this hash ends, or nil if
// there is none.
func (l *announcements) doneChannel(hash Hash) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.byHash[hash]
	if a == nil {
		return nil
	}
	if a.done == nil {
		a.done = make(chan struct{})
	}
	return a.done
}

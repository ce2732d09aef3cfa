package conversation

import (
	"context"
	"sync"
	"time"
)

// announcements lists the threads that will soon be kept for the next requests of their
// conversations. A client may send its next request before the turn of its previous request has
// completely ended. The next request then waits until the thread is kept. The zero value is empty.
// An announcements value is safe for concurrent use.
type announcements struct {
	mu     sync.Mutex
	byHash map[Hash]*announcement
}

// announcement says that a thread will soon be kept. A nil announcement is allowed: its method end
// does nothing.
type announcement struct {
	list *announcements
	hash Hash
	done chan struct{} // closed by end; nil: no request has waited
}

// announce adds an announcement. hash identifies the history of the thread. The caller must end the
// announcement when the thread is kept, or when it is clear that the thread will not be kept. If
// another thread with the same history is announced already, announce returns nil.
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

// end ends the announcement. The requests that wait for it then go on. A second call does nothing.
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

// announcementTimeout bounds how long a request waits for a thread that will soon be kept. After
// that, the request goes on without the thread.
const announcementTimeout = 2 * time.Second

// wait looks for the announcement with the hash of the last link. If there is none, it returns
// false immediately. Otherwise it waits until the announcement or ctx has ended, but at most
// announcementTimeout, and returns true.
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

// doneChannel returns a channel that is closed when the announcement with this hash ends. It
// returns nil if there is no such announcement.
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

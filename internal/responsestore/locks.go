package responsestore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/storagecall"
)

// unlockTime bounds how long a lock is released.
const unlockTime = 10 * time.Second

// lock locks an entry of a user for all nodes. Of the requests of this process for one entry only
// one waits for the storage, and those that wait take no call from others: neither from whoever
// holds the lock, who needs calls to release it, nor from other users.
func (s *Shared) lock(ctx context.Context, user, id string) (unlock func(), err error) {
	leave, err := changes.enter(ctx, id)
	if err != nil {
		return nil, unavailable(err)
	}
	release, err := s.lockStorage(ctx, user, "codex_"+id)
	if err != nil {
		leave()
		return nil, unavailable(err)
	}
	return func() {
		release()
		leave()
	}, nil
}

// lockStorage takes a lock of the storage. The storage may grant it when nobody waits for it any
// more; then it is released at once.
func (s *Shared) lockStorage(ctx context.Context, user, name string) (release func(), err error) {
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
		defer cancel()
		if _, err := storagecall.Do(ctx, nil, user, nil, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.storage.Unlock(ctx, name)
		}); err != nil {
			s.logger.Warn("a stored conversation could not be unlocked", "lock", name, "error", err)
		}
	}
	var decided atomic.Bool // by the storage, which has granted it, or else by the end of the waiting
	_, err = storagecall.Do(ctx, s.locks, user, nil, func(ctx context.Context) (struct{}, error) {
		err := s.storage.Lock(ctx, name)
		if err == nil && !decided.CompareAndSwap(false, true) {
			err = s.storage.Unlock(context.WithoutCancel(ctx), name)
		}
		return struct{}{}, err
	})
	if err == nil {
		return release, nil
	}
	if !decided.CompareAndSwap(false, true) {
		release()
	}
	return nil, err
}

// changes lets the changes of an entry happen one after the other within this process, whichever
// store makes them: ids are unique.
var changes = lines{byID: make(map[string]*changeLine)}

// lines are the changes that go on and those that wait for them, by the ids of their entries.
type lines struct {
	mu   sync.Mutex
	byID map[string]*changeLine
}

// changeLine has one element while the entry is being changed.
type changeLine struct {
	busy  chan struct{}
	users int // those who change the entry or wait for that; guarded by lines
}

// enter waits until an entry may be changed, or ctx ends. The caller calls leave.
func (l *lines) enter(ctx context.Context, id string) (leave func(), err error) {
	l.mu.Lock()
	line := l.byID[id]
	if line == nil {
		line = &changeLine{busy: make(chan struct{}, 1)}
		l.byID[id] = line
	}
	line.users++
	l.mu.Unlock()
	done := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if line.users--; line.users == 0 {
			delete(l.byID, id)
		}
	}
	select {
	case line.busy <- struct{}{}:
		return func() {
			<-line.busy
			done()
		}, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	}
}

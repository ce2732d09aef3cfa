package responsestore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// Update implements [Store]. change must be quick: the store is locked.
func (m *Memory) Update(_ context.Context, user, id string, change func(Entry) (*Entry, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	element, err := m.find(user, id)
	if err != nil {
		return err
	}
	k := element.Value.(*kept)
	changed, err := change(*k.entry)
	if err != nil {
		return err
	}
	return m.put(id, changed, k.until)
}

// Update implements [Store].
func (s *Shared) Update(ctx context.Context, user, id string, change func(Entry) (*Entry, error)) error {
	unlock, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	e, err := s.Get(ctx, user, id)
	if err != nil {
		return err
	}
	defer e.Release()
	copied := *e
	copied.release = nil
	changed, err := change(copied)
	if err != nil {
		return err
	}
	return s.Put(ctx, id, changed)
}

// unlockTime bounds how long a lock is released.
const unlockTime = 10 * time.Second

// The states of a lock that is being acquired.
const (
	lockWanted = iota
	lockHeld
	lockAbandoned
)

// lock locks an entry for all nodes. The storage may grant the lock when nobody waits for it
// any more; then it is released at once.
func (s *Shared) lock(ctx context.Context, id string) (unlock func(), err error) {
	name := "codex_" + id
	release := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
		defer cancel()
		_, err := call(ctx, s, nil, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.storage.Unlock(ctx, name)
		})
		if err != nil {
			s.logger.Warn("a stored conversation could not be unlocked", "id", id, "error", err)
		}
	}
	var state atomic.Int32
	_, err = call(ctx, s, nil, func(ctx context.Context) (struct{}, error) {
		err := s.storage.Lock(ctx, name)
		if err == nil && !state.CompareAndSwap(lockWanted, lockHeld) {
			err = s.storage.Unlock(context.WithoutCancel(ctx), name)
		}
		return struct{}{}, err
	})
	if err == nil {
		return release, nil
	}
	if !state.CompareAndSwap(lockWanted, lockAbandoned) {
		release()
	}
	return nil, err
}

// deleteLocked deletes an entry that may be updated at the same time.
func (s *Shared) deleteLocked(ctx context.Context, id, key string) error {
	if !responseid.ValidConversation(id) {
		return s.remove(ctx, key)
	}
	unlock, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	return s.remove(ctx, key)
}

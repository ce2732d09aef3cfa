package responsestore

import (
	"context"
	"sync/atomic"
	"time"
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

// lock locks an entry for all nodes. The storage may grant the lock when nobody waits for it
// any more; then it is released at once.
func (s *Shared) lock(ctx context.Context, id string) (unlock func(), err error) {
	name := "codex_" + id
	release := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTime)
		defer cancel()
		if err := s.do(ctx, nil, func(ctx context.Context) error { return s.storage.Unlock(ctx, name) }); err != nil {
			s.logger.Warn("a stored conversation could not be unlocked", "id", id, "error", err)
		}
	}
	var decided atomic.Bool // by the storage, which has granted it, or else by the end of the waiting
	err = s.do(ctx, nil, func(ctx context.Context) error {
		err := s.storage.Lock(ctx, name)
		if err == nil && !decided.CompareAndSwap(false, true) {
			err = s.storage.Unlock(context.WithoutCancel(ctx), name)
		}
		return err
	})
	if err == nil {
		return release, nil
	}
	if !decided.CompareAndSwap(false, true) {
		release()
	}
	return nil, err
}

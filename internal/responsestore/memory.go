package responsestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// Memory keeps entries in memory.
type Memory struct {
	maxAge time.Duration
	now    func() time.Time

	mu sync.Mutex
	shares
}

// NewMemory returns a store that uses at most maxBytes of memory and keeps each entry for maxAge.
func NewMemory(maxBytes int64, maxAge time.Duration) *Memory {
	return &Memory{maxAge: maxAge, now: time.Now, shares: newShares(maxBytes)}
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, id string, e *Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(id, e, m.now().Add(m.maxAge))
}

// put stores an entry until a time.
func (m *Memory) put(id string, e *Entry, until time.Time) error {
	_, err := m.shares.put(e.User, &kept{id: id, entry: e, until: until, size: e.Size() + int64(len(id))}, m.now())
	return err
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, user, id string) (*Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(user, id, m.now()); k != nil {
		return k.entry, nil
	}
	return nil, ErrNotFound
}

// Chain implements [Store].
func (m *Memory) Chain(ctx context.Context, user, id string, room *Room) (links []Link, next string, err error) {
	return chainOf(ctx, m, user, id, room)
}

// chainOf reads a chain entry by entry.
func chainOf(ctx context.Context, s Store, user, id string, room *Room) (links []Link, next string, err error) {
	for id != "" {
		e, err := s.Get(ctx, user, id)
		if errors.Is(err, ErrNotFound) || err == nil && e.Running { // half a response cannot be continued
			return links, id, nil
		}
		if err != nil {
			return nil, "", err
		}
		link, err := room.Link(ctx, id, e)
		e.Release()
		if err != nil {
			return nil, "", err
		}
		links, id = append(links, link), e.Previous
	}
	return links, "", nil
}

// Delete implements [Store].
func (m *Memory) Delete(_ context.Context, user, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(user, id, m.now())
	if k == nil {
		return ErrNotFound
	}
	m.remove(k)
	return nil
}

// change replaces a conversation by what change makes of it.
func (m *Memory) change(user, id string, change func(*Entry) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(user, id, m.now())
	if k == nil || !responseid.ValidConversation(id) {
		return ErrNotFound
	}
	changed := *k.entry
	if err := change(&changed); err != nil {
		return err
	}
	return m.put(id, &changed, k.until)
}

// Append implements [Store].
func (m *Memory) Append(_ context.Context, user, id string, items []json.RawMessage) error {
	return m.change(user, id, func(e *Entry) error {
		e.Input = slices.Concat(e.Input, items)
		return nil
	})
}

// RemoveItem implements [Store].
func (m *Memory) RemoveItem(_ context.Context, user, id string, item json.RawMessage) error {
	return m.change(user, id, func(e *Entry) error {
		at := slices.IndexFunc(e.Input, func(other json.RawMessage) bool { return bytes.Equal(other, item) })
		if at < 0 {
			return ErrNotFound
		}
		e.Input = slices.Delete(slices.Clone(e.Input), at, at+1)
		return nil
	})
}

// SetObject implements [Store].
func (m *Memory) SetObject(_ context.Context, user, id string, object json.RawMessage) error {
	return m.change(user, id, func(e *Entry) error {
		e.Response = object
		return nil
	})
}

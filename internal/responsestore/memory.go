package responsestore

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// Memory keeps entries in memory. When there is no room, it drops entries, see [entryIndex].
type Memory struct {
	maxAge time.Duration
	now    func() time.Time

	mu sync.Mutex
	entryIndex
}

// NewMemory returns a store that uses at most maxBytes of memory and keeps each entry for maxAge.
func NewMemory(maxBytes int64, maxAge time.Duration) *Memory {
	return &Memory{maxAge: maxAge, now: time.Now, entryIndex: newEntryIndex(maxBytes)}
}

// Put implements [stores.Store].
func (m *Memory) Put(_ context.Context, id string, e *stores.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(id, e, m.now().Add(m.maxAge))
}

// put stores an entry. The parameter expires is the time after which the entry is too old.
func (m *Memory) put(id string, e *stores.Entry, expires time.Time) error {
	_, err := m.entryIndex.put(e.User, &storedEntry{id: id, entry: e, expires: expires, size: e.Size() + int64(len(id))}, m.now())
	return err
}

// Get implements [stores.Store].
func (m *Memory) Get(_ context.Context, user, id string) (*stores.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.find(user, id, m.now()); k != nil {
		return k.entry, nil
	}
	return nil, stores.ErrNotFound
}

// Delete implements [stores.Store].
func (m *Memory) Delete(_ context.Context, user, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(user, id, m.now())
	if k == nil {
		return stores.ErrNotFound
	}
	m.remove(k)
	return nil
}

// changeConversation replaces a conversation by a copy that edit has changed.
func (m *Memory) changeConversation(user, id string, edit func(*stores.Entry) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(user, id, m.now())
	if k == nil || !responseid.ValidConversation(id) {
		return stores.ErrNotFound
	}
	changed := *k.entry
	if err := edit(&changed); err != nil {
		return err
	}
	return m.put(id, &changed, k.expires)
}

// Append implements [stores.Store].
func (m *Memory) Append(_ context.Context, user, id string, items []json.RawMessage) error {
	return m.changeConversation(user, id, func(e *stores.Entry) error {
		e.Input = slices.Concat(e.Input, items)
		return nil
	})
}

// RemoveItem implements [stores.Store].
func (m *Memory) RemoveItem(_ context.Context, user, id string, item json.RawMessage) error {
	return m.changeConversation(user, id, func(e *stores.Entry) error {
		at := slices.IndexFunc(e.Input, func(other json.RawMessage) bool { return bytes.Equal(other, item) })
		if at < 0 {
			return stores.ErrNotFound
		}
		e.Input = slices.Delete(slices.Clone(e.Input), at, at+1)
		return nil
	})
}

// SetObject implements [stores.Store].
func (m *Memory) SetObject(_ context.Context, user, id string, object json.RawMessage) error {
	return m.changeConversation(user, id, func(e *stores.Entry) error {
		e.Response = object
		return nil
	})
}

// Package responsestore stores the responses of the Responses API, so that clients
// can read and delete them and continue from them.
//
// A [Store] is bounded: [Memory] in bytes and age, [Shared] in number and age. An
// entry belongs to the user who made the request and does not exist for others.
package responsestore

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

// Memory keeps entries in memory. When it is full, the least recently used entries of the user
// with the most bytes are dropped, so that no user can push out what others have.
type Memory struct {
	maxBytes int64
	maxAge   time.Duration
	now      func() time.Time

	mu    sync.Mutex
	bytes int64
	byID  map[string]*kept
	ages  *list.List // of *kept, those that were put last first
	users owners
}

// kept is an entry in memory.
type kept struct {
	id    string
	entry *Entry
	until time.Time
	size  int64
	owner *owner
	used  *list.Element // in the list of the owner
	aged  *list.Element // in the list of the ages
}

// NewMemory returns a store that uses at most maxBytes of memory and keeps each entry for maxAge.
func NewMemory(maxBytes int64, maxAge time.Duration) *Memory {
	return &Memory{
		maxBytes: maxBytes,
		maxAge:   maxAge,
		now:      time.Now,
		byID:     make(map[string]*kept),
		ages:     list.New(),
		users:    owners{byName: make(map[string]*owner)},
	}
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, id string, e *Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(id, e, m.now().Add(m.maxAge))
}

// put stores an entry until a time. One of more than half of the memory is only for a user who
// shares it with nobody.
func (m *Memory) put(id string, e *Entry, until time.Time) error {
	size := e.Size() + int64(len(id))
	if size > m.maxBytes || size > m.maxBytes/2 && m.users.others(e.User) {
		return ErrTooLarge
	}
	m.remove(m.byID[id])
	now := m.now()
	for last := m.ages.Back(); last != nil && last.Value.(*kept).until.Before(now); last = m.ages.Back() {
		m.remove(last.Value.(*kept))
	}
	of := m.users.get(e.User)
	m.users.add(of, size)
	m.bytes += size
	for m.bytes > m.maxBytes {
		m.remove(m.users.most().used.Back().Value.(*kept))
	}
	k := &kept{id: id, entry: e, until: until, size: size, owner: of}
	k.used, k.aged = of.used.PushFront(k), m.ages.PushFront(k)
	m.byID[id] = k
	return nil
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, user, id string) (*Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(user, id)
	if err != nil {
		return nil, err
	}
	k.owner.used.MoveToFront(k.used)
	return k.entry, nil
}

// Delete implements [Store].
func (m *Memory) Delete(_ context.Context, user, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(user, id)
	if err == nil {
		m.remove(k)
	}
	return err
}

// Update implements [Store]. change must be quick: the store is locked.
func (m *Memory) Update(_ context.Context, user, id string, change func(Entry) (*Entry, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, err := m.find(user, id)
	if err != nil {
		return err
	}
	changed, err := change(*k.entry)
	if err != nil {
		return err
	}
	return m.put(id, changed, k.until)
}

// find returns a user's entry.
func (m *Memory) find(user, id string) (*kept, error) {
	k := m.byID[id]
	if k == nil {
		return nil, ErrNotFound
	}
	if k.until.Before(m.now()) {
		m.remove(k)
		return nil, ErrNotFound
	}
	if k.entry.User != user {
		return nil, ErrNotFound
	}
	return k, nil
}

// remove removes an entry, if it is not nil.
func (m *Memory) remove(k *kept) {
	if k == nil {
		return
	}
	k.owner.used.Remove(k.used)
	m.ages.Remove(k.aged)
	delete(m.byID, k.id)
	m.bytes -= k.size
	m.users.add(k.owner, -k.size)
}

// Store keeps entries by the ids of their responses. It is safe for concurrent use.
type Store interface {
	// Put stores an entry. The error is ErrTooLarge if it does not fit, and
	// ErrUnavailable if the store does not work.
	Put(ctx context.Context, id string, e *Entry) error
	// Get returns an entry of a user, which the caller releases. The error is ErrNotFound if there
	// is none or it is another user's, and ErrUnavailable if the store does not work.
	Get(ctx context.Context, user, id string) (*Entry, error)
	// Delete deletes an entry of a user. The errors are those of Get.
	Delete(ctx context.Context, user, id string) error
	// Update replaces the entry of a user by what change makes of it. Updates of one entry
	// happen one after the other, on all nodes. The errors are those of Get, Put and change.
	Update(ctx context.Context, user, id string, change func(Entry) (*Entry, error)) error
}

// The errors of stores and readers.
var (
	ErrNotFound       = errors.New("there is no such response")
	ErrTooLarge       = errors.New("the response is too large to be kept")
	ErrTooLong        = errors.New("there are too many responses before, or they are too large")
	ErrNoMemory       = errors.New("there is no memory for the items")
	ErrInConversation = errors.New("the response belongs to a conversation")
	ErrUnavailable    = errors.New("the store of responses does not work")
)

package store

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// memory is a shelf in memory. It does not copy records.
type memory struct {
	mu      sync.RWMutex
	entries map[string]map[place][]byte // by id
}

type place struct {
	part Part
	n    int64
}

// NewMemory returns an engine that uses at most maxBytes of memory and keeps each entry for maxAge.
func NewMemory(maxBytes int64, maxAge time.Duration) *Local {
	return newLocal(&memory{entries: make(map[string]map[place][]byte)}, maxBytes, 0, maxAge)
}

func (m *memory) view(run func(transaction) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return run(m)
}

// update runs a function. If the function fails, there is nothing to undo: put and drop cannot fail, and
// functions check before they change an entry.
func (m *memory) update(run func(transaction) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return run(m)
}

func (m *memory) get(id string, part Part, n int64) []byte { return m.entries[id][place{part, n}] }

func (*memory) keep(record []byte) []byte { return record }

func (m *memory) put(id string, part Part, n int64, record []byte) error {
	if m.entries[id] == nil {
		m.entries[id] = make(map[place][]byte)
	}
	if record == nil { // from get, nil would mean that there is no record
		record = []byte{}
	}
	m.entries[id][place{part, n}] = record
	return nil
}

func (m *memory) drop(id string, parts ...Part) error {
	maps.DeleteFunc(m.entries[id], func(at place, _ []byte) bool { return slices.Contains(parts, at.part) })
	if len(m.entries[id]) == 0 {
		delete(m.entries, id)
	}
	return nil
}

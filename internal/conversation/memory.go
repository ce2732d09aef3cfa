package conversation

import (
	"container/list"
	"encoding/json"
	"slices"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Memory stores the reasoning of answers, since clients do not send reasoning back. When a
// conversation continues in a new thread, that thread gets the reasoning from here. The size of a
// Memory is bounded: it removes the least recently used entries first. A Memory is safe for
// concurrent use.
type Memory struct {
	limit int

	mu     sync.Mutex
	byHash map[Hash]*list.Element
	order  *list.List // of *memoryEntry, the least recently used first
	bytes  int
}

// memoryEntry has the reasoning of one answer.
type memoryEntry struct {
	hash      Hash // of the history up to the end of the answer
	reasoning []turn.Reasoning
	size      int
}

// memoryEntrySize is the approximate size of an entry without its reasoning, in bytes.
const memoryEntrySize = 256

// NewMemory returns an empty memory of at most limit bytes.
func NewMemory(limit int) *Memory {
	return &Memory{limit: limit, byHash: make(map[Hash]*list.Element), order: list.New()}
}

// Remember stores the reasoning of an answer. hash is the hash of the history up to the end of the
// answer.
func (m *Memory) Remember(hash Hash, reasoning []turn.Reasoning) {
	if len(reasoning) == 0 {
		return
	}
	entry := &memoryEntry{hash: hash, reasoning: reasoning, size: memoryEntrySize}
	for _, item := range reasoning {
		entry.size += len(item.Item)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(entry)
}

// remember adds an entry. It replaces an entry with the same hash. An entry that is larger than the
// limit is not added. The caller holds the lock.
func (m *Memory) remember(entry *memoryEntry) {
	m.forget(entry.hash)
	if entry.size > m.limit {
		return
	}
	for m.bytes+entry.size > m.limit {
		m.forget(m.order.Front().Value.(*memoryEntry).hash)
	}
	m.byHash[entry.hash] = m.order.PushBack(entry)
	m.bytes += entry.size
}

// Forget removes the reasoning of all answers in a history, because Codex or the provider has
// refused this reasoning.
func (m *Memory) Forget(links []Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range links {
		m.forget(links[i].Hash)
	}
}

// Clear removes all entries.
func (m *Memory) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byHash)
	m.order.Init()
	m.bytes = 0
}

// forget removes the entry with this hash, if there is one. The caller holds the lock.
func (m *Memory) forget(hash Hash) {
	if e := m.byHash[hash]; e != nil {
		delete(m.byHash, hash)
		m.bytes -= m.order.Remove(e).(*memoryEntry).size
	}
}

// Restore adds the stored reasoning of the answers to a copy of history, and returns the copy.
// added is the number of added items; if it is 0, restored is history itself. links are the links
// of the history. An answer that already has reasoning gets no more.
func (m *Memory) Restore(links []Link, history []json.RawMessage) (restored []json.RawMessage, added int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := 0
	for i := range links {
		e := m.byHash[links[i].Hash]
		if e == nil || links[i].HasReasoning {
			continue
		}
		m.order.MoveToBack(e)
		begin, end := links[i].First, links[i].Items
		restored = append(restored, history[from:begin]...)
		for _, item := range e.Value.(*memoryEntry).reasoning {
			// The client may have joined messages, so item.Before may be too large. The provider
			// requires that an item of the answer follows the reasoning, so position is at most
			// end-1.
			position := max(begin, min(links[i].First+item.Before, end-1))
			restored = append(append(restored, history[begin:position]...), json.RawMessage(item.Item))
			begin = position
			added++
		}
		restored, from = append(restored, history[begin:end]...), end
	}
	if added == 0 {
		return history, 0
	}
	return slices.Concat(restored, history[from:]), added
}

package conversation

import (
	"container/list"
	"encoding/json"
	"slices"
	"sync"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Memory remembers the reasoning of answers, which clients do not send back. A thread that is made
// from a history gets the reasoning from here. The memory is bounded in bytes; the least recently
// used entries go first. All methods are safe for concurrent use.
type Memory struct {
	limit int

	mu     sync.Mutex
	byHash map[Hash]*list.Element
	order  *list.List // of *memory, the least recently used first
	bytes  int
}

// memory is the remembered reasoning of one answer.
type memory struct {
	hash      Hash
	reasoning []turn.Reasoning // of the last answer in the history
	size      int
}

// memorySize is about what an entry takes beside its items, in bytes.
const memorySize = 256

// NewMemory returns an empty memory of at most limit bytes.
func NewMemory(limit int) *Memory {
	return &Memory{limit: limit, byHash: make(map[Hash]*list.Element), order: list.New()}
}

// Remember keeps the reasoning of the last answer in the history of this hash.
func (m *Memory) Remember(hash Hash, reasoning []turn.Reasoning) {
	if len(reasoning) == 0 {
		return
	}
	one := &memory{hash: hash, reasoning: reasoning, size: memorySize}
	for _, item := range reasoning {
		one.size += len(item.Item)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remember(one)
}

// remember adds an entry, in place of an entry with the same hash. The lock is held.
func (m *Memory) remember(one *memory) {
	m.forget(one.hash)
	if one.size > m.limit {
		return
	}
	for m.bytes+one.size > m.limit {
		m.forget(m.order.Front().Value.(*memory).hash)
	}
	m.byHash[one.hash] = m.order.PushBack(one)
	m.bytes += one.size
}

// Forget drops the reasoning of all answers of a history, after it was refused.
func (m *Memory) Forget(links []Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range links {
		m.forget(links[i].Hash)
	}
}

// Clear drops all.
func (m *Memory) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byHash)
	m.order.Init()
	m.bytes = 0
}

// forget drops an entry, if there is one. The lock is held.
func (m *Memory) forget(hash Hash) {
	if e := m.byHash[hash]; e != nil {
		delete(m.byHash, hash)
		m.bytes -= m.order.Remove(e).(*memory).size
	}
}

// Restore returns a copy of a history with the reasoning of its answers, and how many items were
// added. links are the links of the history. An answer that has reasoning already keeps it.
func (m *Memory) Restore(links []Link, history []json.RawMessage) (restored []json.RawMessage, added int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := 0
	for i := range links {
		e := m.byHash[links[i].Hash]
		if e == nil || links[i].Reasoned {
			continue
		}
		m.order.MoveToBack(e)
		begin, end := links[i].First, links[i].Items
		restored = append(restored, history[from:begin]...)
		for _, item := range e.Value.(*memory).reasoning {
			// The client may have joined messages, so item.Before may be too large. The provider
			// wants something behind each item of reasoning.
			at := max(begin, min(links[i].First+item.Before, end-1))
			restored = append(append(restored, history[begin:at]...), json.RawMessage(item.Item))
			begin = at
			added++
		}
		restored, from = append(restored, history[begin:end]...), end
	}
	if added == 0 {
		return history, 0
	}
	return slices.Concat(restored, history[from:]), added
}

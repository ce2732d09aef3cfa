package pool

import (
	"sync"
	"sync/atomic"
)

// shared is a map of values that count their holders. A value is removed when its last holder
// releases it. The zero value is empty. All methods are safe for concurrent use.
type shared[V any] struct {
	mu    sync.Mutex
	byKey map[string]*sharedValue[V]
}

type sharedValue[V any] struct {
	holders int // calls of acquire, minus calls of release
	once    sync.Once
	value   atomic.Pointer[V] // nil: it is being made
}

// acquire returns the value of a key, and counts one more holder. The first holder makes the value
// with create. Other holders wait until the value is made.
func (s *shared[V]) acquire(key string, create func() V) V {
	s.mu.Lock()
	h := s.byKey[key]
	if h == nil {
		if s.byKey == nil {
			s.byKey = make(map[string]*sharedValue[V])
		}
		h = new(sharedValue[V])
		s.byKey[key] = h
	}
	h.holders++
	s.mu.Unlock()
	if h.value.Load() == nil {
		h.once.Do(func() { h.value.Store(new(create())) })
	}
	return *h.value.Load()
}

// release removes a holder. It returns the value, and whether this was the last holder.
func (s *shared[V]) release(key string) (value V, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.byKey[key]
	if h.holders--; h.holders == 0 {
		delete(s.byKey, key)
	}
	return *h.value.Load(), h.holders == 0
}

func (s *shared[V]) find(key string) (value V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byKey[key]; h != nil && h.value.Load() != nil {
		value = *h.value.Load()
	}
	return value
}

// values returns all values, except those that are still being made.
func (s *shared[V]) values() (all []V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.byKey {
		if value := h.value.Load(); value != nil {
			all = append(all, *value)
		}
	}
	return all
}

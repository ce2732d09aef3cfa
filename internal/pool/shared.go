package pool

import (
	"sync"
	"sync/atomic"
)

// shared holds values by their keys. A value stays as long as it has a holder. The zero value is
// empty. All methods are safe for concurrent use.
type shared[V any] struct {
	mu    sync.Mutex
	byKey map[string]*sharedValue[V]
}

// sharedValue is a value with its holders.
type sharedValue[V any] struct {
	holders int
	once    sync.Once
	isSet   atomic.Bool // value is set
	value   V
}

// acquire returns the value of a key for one more holder. The first holder makes the value with
// create; meanwhile the others wait.
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
	if !h.isSet.Load() {
		h.once.Do(func() {
			h.value = create()
			h.isSet.Store(true)
		})
	}
	return h.value
}

// release removes one holder of a key's value. It returns the value, and whether this was the last
// holder.
func (s *shared[V]) release(key string) (value V, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.byKey[key]
	if h.holders--; h.holders == 0 {
		delete(s.byKey, key)
	}
	return h.value, h.holders == 0
}

// values returns the values that have been made.
func (s *shared[V]) values() (all []V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.byKey {
		if h.isSet.Load() {
			all = append(all, h.value)
		}
	}
	return all
}

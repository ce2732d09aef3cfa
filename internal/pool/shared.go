package pool

import (
	"sync"
	"sync/atomic"
)

// shared holds values by their keys. A value stays as long as it has a holder. The zero value is
// empty. All methods are safe for concurrent use.
type shared[V any] struct {
	mu  sync.Mutex
	all map[string]*held[V]
}

// held is a value with its holders.
type held[V any] struct {
	holders int
	once    sync.Once
	made    atomic.Bool // value is set
	value   V
}

// acquire returns the value of a key for one more holder. The first holder makes the value with
// create; meanwhile the others wait.
func (s *shared[V]) acquire(key string, create func() V) V {
	s.mu.Lock()
	h := s.all[key]
	if h == nil {
		if s.all == nil {
			s.all = make(map[string]*held[V])
		}
		h = new(held[V])
		s.all[key] = h
	}
	h.holders++
	s.mu.Unlock()
	if !h.made.Load() {
		h.once.Do(func() {
			h.value = create()
			h.made.Store(true)
		})
	}
	return h.value
}

// release removes one holder of a key's value. It returns the value, and whether this was the last
// holder.
func (s *shared[V]) release(key string) (value V, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.all[key]
	if h.holders--; h.holders == 0 {
		delete(s.all, key)
	}
	return h.value, h.holders == 0
}

// values returns the values that have been made.
func (s *shared[V]) values() (all []V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if h.made.Load() {
			all = append(all, h.value)
		}
	}
	return all
}

package pool

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestShared checks that all holders of a key get one value, which is made once and lives
// until the last of them has released it.
func TestShared(t *testing.T) {
	var s shared[*int]
	var made atomic.Int64
	var wg sync.WaitGroup
	got := make([]*int, 16)
	for i := range got {
		wg.Go(func() { got[i] = s.acquire("k", func() *int { made.Add(1); return new(int) }) })
	}
	wg.Wait()
	for _, one := range got {
		if one == nil || one != got[0] {
			t.Fatal("the holders have different values")
		}
	}
	other := s.acquire("other", func() *int { return new(int) })
	if made.Load() != 1 || other == got[0] || len(s.values()) != 2 || s.holders("k") != len(got) {
		t.Errorf("%d were made, %d are there, %d hold the first", made.Load(), len(s.values()), s.holders("k"))
	}
	for i := range got {
		if _, last := s.release("k"); last != (i == len(got)-1) {
			t.Errorf("release %d: the last: %t", i, last)
		}
	}
	if s.holders("k") != 0 || len(s.values()) != 1 {
		t.Errorf("%d values are left", len(s.values()))
	}
	if again := s.acquire("k", func() *int { return new(int) }); again == got[0] {
		t.Error("the old value is back")
	}
}

// holders returns how many hold the value of a key.
func (s *shared[V]) holders(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byKey[key]; h != nil {
		return h.holders
	}
	return 0
}

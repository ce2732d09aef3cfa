package pool

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Functions may be added while Wait waits, which returns once all that started before have ended.
func TestStops(t *testing.T) {
	s := new(backgroundTasks)
	s.Wait()
	var ended atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				var mine atomic.Bool
				s.Go(func() {
					mine.Store(true)
					ended.Add(1)
				})
				s.Wait()
				if !mine.Load() {
					t.Error("the wait was over before the end")
				}
			}
		})
	}
	wg.Wait()
	if n := ended.Load(); n != 8*500 {
		t.Errorf("%d stops ended", n)
	}
}

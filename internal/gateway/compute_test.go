package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestComputeInTurn checks that large requests take turns, and that small ones do not.
func TestComputeInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{processors: newProcessors(2)}
		for _, c := range []struct {
			size int64
			want time.Duration
		}{{largeRequestSize, 5 * time.Second}, {largeRequestSize - 1, time.Second}} {
			start := time.Now()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { g.compute(&exchange{arrived: start}, c.size, func() { time.Sleep(time.Second) }) })
			}
			all.Wait()
			if took := time.Since(start); took != c.want {
				t.Errorf("ten of %d bytes took %s, want %s", c.size, took, c.want)
			}
		}
	})
}

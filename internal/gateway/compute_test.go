package gateway

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestComputeInTurn checks that large requests take turns, small ones do not, and that one
// that panics leaves its place.
func TestComputeInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{processors: make(chan struct{}, 2)}
		func() {
			defer func() { _ = recover() }()
			g.compute(inTurnFrom, func() { panic("broken") })
		}()
		for _, c := range []struct {
			size int
			want time.Duration
		}{{inTurnFrom, 5 * time.Second}, {inTurnFrom - 1, time.Second}} {
			start := time.Now()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { g.compute(c.size, func() { time.Sleep(time.Second) }) })
			}
			all.Wait()
			if took := time.Since(start); took != c.want {
				t.Errorf("ten of %d bytes took %s, want %s", c.size, took, c.want)
			}
		}
	})
}

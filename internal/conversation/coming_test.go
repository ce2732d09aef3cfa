package conversation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestComing waits for threads that are announced.
func TestComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Coming
		links := []Link{{Hash: named("a")}, {Hash: named("b")}}
		if c.Wait(t.Context(), nil) || c.Wait(t.Context(), links) {
			t.Error("waited for nothing")
		}
		older := c.Announce(named("a"))
		if c.Wait(t.Context(), links) {
			t.Error("waited for the thread of an older answer")
		}
		older.End()
		arrived := c.Announce(named("b"))
		c.Announce(named("b")).End() // does not end the first one
		began := time.Now()
		time.AfterFunc(time.Second, arrived.End)
		if !c.Wait(t.Context(), links) || time.Since(began) != time.Second {
			t.Errorf("waited for %s", time.Since(began))
		}
		arrived.End()
		if len(c.byHash) > 0 {
			t.Error("threads that have arrived are remembered")
		}
		defer c.Announce(named("b")).End()
		ctx, cancel := context.WithTimeout(t.Context(), comingTimeout/2)
		defer cancel()
		if !c.Wait(ctx, links) || ctx.Err() == nil {
			t.Error("did not wait until the end of the context")
		}
		began = time.Now()
		if !c.Wait(t.Context(), links) || time.Since(began) != comingTimeout {
			t.Errorf("waited for %s", time.Since(began))
		}
	})
}

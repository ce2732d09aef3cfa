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
		var c announcements
		links := []Link{{Hash: named("a")}, {Hash: named("b")}}
		if c.wait(t.Context(), nil) || c.wait(t.Context(), links) {
			t.Error("waited for nothing")
		}
		older := c.announce(named("a"))
		if c.wait(t.Context(), links) {
			t.Error("waited for the thread of an older answer")
		}
		older.end()
		arrived := c.announce(named("b"))
		c.announce(named("b")).end() // does not end the first one
		began := time.Now()
		time.AfterFunc(time.Second, arrived.end)
		if !c.wait(t.Context(), links) || time.Since(began) != time.Second {
			t.Errorf("waited for %s", time.Since(began))
		}
		arrived.end()
		if len(c.byHash) > 0 {
			t.Error("threads that have arrived are remembered")
		}
		defer c.announce(named("b")).end()
		ctx, cancel := context.WithTimeout(t.Context(), announcementTimeout/2)
		defer cancel()
		if !c.wait(ctx, links) || ctx.Err() == nil {
			t.Error("did not wait until the end of the context")
		}
		began = time.Now()
		if !c.wait(t.Context(), links) || time.Since(began) != announcementTimeout {
			t.Errorf("waited for %s", time.Since(began))
		}
	})
}

package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestLimitsInTime: an app-server that does not report the plan's limits delays nobody for
// long, and is not asked again immediately.
func TestLimitsInTime(t *testing.T) {
	c, _ := newConfiguration(t, newSupervisor(t), fakes(t, fakeserver.NoLimits, 1))
	c.Start()
	m := sole(t, c)
	pid(t, m)
	w := m.process.Load()
	must.OK(t, w.limitsLock.Acquire(t.Context(), 1)) // somebody asks
	gone, leave := context.WithCancel(t.Context())
	leave()
	if w.RateLimits(gone) != nil {
		t.Error("there are limits")
	}
	w.limitsLock.Release(1)
	for wait := 20 * time.Millisecond; w.limitsAskedAt.IsZero() && wait < patience; wait *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		if limits := w.RateLimits(ctx); limits != nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%+v, %v", limits, ctx.Err())
		}
		cancel()
	}
	if w.limitsAskedAt.IsZero() {
		t.Fatal("it would be asked again")
	}
	if limits := w.RateLimits(t.Context()); limits != nil { // at once, or the test never ends
		t.Errorf("%+v", limits)
	}
}

// TestLimitsForgotten checks that a process which is not ready forgets the limits that have to be
// read again, so that it is asked for them as soon as it is ready.
func TestLimitsForgotten(t *testing.T) {
	c, _ := newConfiguration(t, newSupervisor(t), fakes(t, "fake", 1))
	p, _ := lease(t, sole(t, c)) // it is not started
	old := new(codexrpc.RateLimits)
	p.limits, p.limitsAskedAt = old, time.Now()
	if limits := p.RateLimits(t.Context()); limits != old {
		t.Errorf("%+v", limits)
	}
	if limits := p.limitsWithin(t.Context(), 0); limits != nil {
		t.Errorf("%+v", limits)
	}
	if !p.limitsAskedAt.IsZero() {
		t.Error("it would not be asked for 30 seconds")
	}
}

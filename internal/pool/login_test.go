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
	l := w.login
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if limits := w.RateLimits(ctx, time.Minute); limits != nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("%+v, %v", limits, ctx.Err())
	}
	must.Happen(t, "the question to be given up", func() bool {
		must.OK(t, l.asking.Acquire(t.Context(), 1))
		defer l.asking.Release(1)
		return !l.limitsAskedAt.IsZero()
	})
	if limits := w.RateLimits(t.Context(), time.Minute); limits != nil { // at once, or the test never ends
		t.Errorf("%+v", limits)
	}
}

// TestLimitsNotReady: a process that is not ready is not asked, so that it is asked as soon as it is ready, and
// what is known stays known.
func TestLimitsNotReady(t *testing.T) {
	c, _ := newConfiguration(t, newSupervisor(t), fakes(t, "fake", 1))
	p, _ := lease(t, sole(t, c)) // it is not started
	known := new(codexrpc.RateLimits)
	p.login.Learn(known)
	if limits := p.RateLimits(t.Context(), 0); limits != known || !p.login.limitsAskedAt.IsZero() {
		t.Errorf("%+v", limits)
	}
}

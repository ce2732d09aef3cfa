package gateway

import (
	"context"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// untilDrained returns a context that also ends, with turn.ErrShutdown, when the
// server has been exiting for the drain timeout. The caller calls end when the
// request has ended.
func (g *Gateway) untilDrained(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.opts.Exit, func() {
		timer := time.NewTimer(g.opts.DrainTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(turn.ErrShutdown)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// untilExit returns a context that also ends, with turn.ErrShutdown, as soon as the
// server is exiting: for what precedes turns, which then will not start. The caller
// calls end when that is done.
func (g *Gateway) untilExit(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.opts.Exit, func() { cancel(turn.ErrShutdown) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// untilDrained returns r with a context that also ends, with turn.ErrShutdown,
// when the server has been exiting for the drain timeout. end is to be called
// when the request is over.
func (g *Gateway) untilDrained(r *http.Request) (drained *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(g.opts.Exit, func() {
		timer := time.NewTimer(g.opts.DrainTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(turn.ErrShutdown)
		case <-ctx.Done():
		}
	})
	return r.WithContext(ctx), func() {
		stop()
		cancel(nil)
	}
}

// untilExit returns r with a context that also ends, with turn.ErrShutdown, as
// soon as the server is exiting: for what precedes turns, which will not start
// any more. end is to be called when that is over.
func (g *Gateway) untilExit(r *http.Request) (exiting *http.Request, end func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(g.opts.Exit, func() { cancel(turn.ErrShutdown) })
	return r.WithContext(ctx), func() {
		stop()
		cancel(nil)
	}
}

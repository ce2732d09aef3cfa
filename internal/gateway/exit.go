package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// drainer ends all requests when the server exits. It watches exit only while there are requests.
// Otherwise an idle gateway would stay in memory after a reload has replaced it.
type drainer struct {
	exit  context.Context // see [Options.Exit]
	drain time.Duration   // how long accepted requests may continue after the exit has begun

	mu           sync.Mutex
	requests     map[*exchange]struct{} // the requests under way; empty after the exit has begun
	exiting      bool                   // the exit has begun
	stopWatching func() bool            // stops watching exit; nil: exit is not watched
}

// add gives ex a context that ends with ctx or when the drainer ends the request. It registers ex until
// remove is called. If the exit has begun already, add starts endRequest instead.
func (d *drainer) add(ctx context.Context, ex *exchange) {
	ex.ctx, ex.cancel = context.WithCancelCause(ctx)
	ex.drainer = d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.exiting {
		go d.endRequest(ex)
		return
	}
	d.requests[ex] = struct{}{}
	if d.stopWatching == nil {
		d.stopWatching = context.AfterFunc(d.exit, d.endAll)
	}
}

func (d *drainer) remove(ex *exchange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.requests, ex)
	if len(d.requests) == 0 && d.stopWatching != nil {
		d.stopWatching()
		d.stopWatching = nil
	}
}

// endAll ends all requests. It is called when the server begins to exit.
func (d *drainer) endAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exiting = true
	for ex := range d.requests {
		go d.endRequest(ex)
	}
	clear(d.requests)
}

// endRequest ends a request with turn.ErrShutdown. A request that is not accepted yet ends
// immediately; any other request ends after the drain timeout.
func (d *drainer) endRequest(ex *exchange) {
	if ex.accepted.Load() {
		timer := time.NewTimer(d.drain)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ex.ctx.Done():
		}
	}
	ex.cancel(turn.ErrShutdown)
}

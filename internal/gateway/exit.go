package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

type exitWatch struct {
	cancel   context.CancelCauseFunc
	done     <-chan struct{} // closed when the context of the request has ended
	accepted atomic.Bool     // true: the request may continue for the drain timeout after the exit has begun; false: it ends immediately
	drainer  *drainer
}

// drainer ends all requests when the server exits. It watches exit only while there are requests.
// Otherwise an idle gateway would stay in memory after a reload has replaced it.
type drainer struct {
	exit  context.Context // see [Options.Exit]
	drain time.Duration   // how long accepted requests may continue after the exit has begun

	mu           sync.Mutex
	watches      map[*exitWatch]struct{} // of the requests under way; empty after the exit has begun
	exiting      bool                    // the exit has begun
	stopWatching func() bool             // stops watching exit; nil: exit is not watched
}

func newDrainer(exit context.Context, drain time.Duration) *drainer {
	return &drainer{exit: exit, drain: drain, watches: make(map[*exitWatch]struct{})}
}

// add registers a request until remove is called. After the exit has begun, it calls endRequest. The
// returned context of the request ends with ctx, or at the exit.
func (d *drainer) add(ctx context.Context, w *exitWatch) context.Context {
	ctx, w.cancel = context.WithCancelCause(ctx)
	w.done, w.drainer = ctx.Done(), d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.exiting {
		go d.endRequest(w)
		return ctx
	}
	d.watches[w] = struct{}{}
	if d.stopWatching == nil {
		d.stopWatching = context.AfterFunc(d.exit, d.endAll)
	}
	return ctx
}

func (w *exitWatch) remove() {
	d := w.drainer
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watches, w)
	if len(d.watches) == 0 && d.stopWatching != nil {
		d.stopWatching()
		d.stopWatching = nil
	}
}

// endAll ends all requests. It is called when the server begins to exit.
func (d *drainer) endAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exiting = true
	for w := range d.watches {
		go d.endRequest(w)
	}
	clear(d.watches)
}

// endRequest ends a request with turn.ErrShutdown. A request that is not accepted yet ends
// immediately; any other request ends after the drain timeout.
func (d *drainer) endRequest(w *exitWatch) {
	if w.accepted.Load() {
		timer := time.NewTimer(d.drain)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.done:
		}
	}
	w.cancel(turn.ErrShutdown)
}

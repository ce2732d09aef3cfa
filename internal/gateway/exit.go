package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// exitWatch is a request that ends when the server exits.
type exitWatch struct {
	cancel   context.CancelCauseFunc
	done     <-chan struct{} // closed when the context of the request has ended
	accepted atomic.Bool     // its turns may start
	drainer  *drainer
}

// drainer ends requests when the server exits. While there are requests, one watch on exit serves
// all of them. An idle gateway has no watch: the watch would keep the gateway in memory after a
// reload has replaced it.
type drainer struct {
	exit  context.Context // see [Options.Exit]
	drain time.Duration

	mu           sync.Mutex
	watches      map[*exitWatch]struct{} // until the exit begins
	exiting      bool                    // the exit has begun
	stopWatching func() bool             // ends the watch of the exit; nil: there is none
}

func newDrainer(exit context.Context, drain time.Duration) *drainer {
	return &drainer{exit: exit, drain: drain, watches: make(map[*exitWatch]struct{})}
}

// add watches a request until remove is called.
func (d *drainer) add(w *exitWatch) {
	w.drainer = d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.exiting {
		go d.endRequest(w)
		return
	}
	d.watches[w] = struct{}{}
	if d.stopWatching == nil {
		d.stopWatching = context.AfterFunc(d.exit, d.endAll)
	}
}

// remove ends the watch of a request.
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

// endAll ends all requests, since the server exits.
func (d *drainer) endAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.exiting = true
	for w := range d.watches {
		go d.endRequest(w)
	}
	clear(d.watches)
}

// endRequest ends a request with turn.ErrShutdown: at once if the request is not accepted yet, otherwise
// after the drain timeout.
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

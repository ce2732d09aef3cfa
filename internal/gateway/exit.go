package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// watched is a request that ends when the server exits.
type watched struct {
	cancel   context.CancelCauseFunc
	done     <-chan struct{} // closed when the context of the request has ended
	accepted atomic.Bool     // its turns may start
	by       *drainer
}

// drainer ends requests when the server exits. While there are requests, one watch on exit serves
// all of them. An idle gateway has no watch: the watch would keep the gateway in memory after a
// reload has replaced it.
type drainer struct {
	exit  context.Context // see [Options.Exit]
	drain time.Duration

	mu   sync.Mutex
	all  map[*watched]struct{} // until the exit begins
	over bool                  // the exit has begun
	stop func() bool           // ends the watch of the exit; nil: there is none
}

func newDrainer(exit context.Context, drain time.Duration) *drainer {
	return &drainer{exit: exit, drain: drain, all: make(map[*watched]struct{})}
}

// add watches a request until remove is called.
func (e *drainer) add(x *watched) {
	x.by = e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		go e.end(x)
		return
	}
	e.all[x] = struct{}{}
	if e.stop == nil {
		e.stop = context.AfterFunc(e.exit, e.begin)
	}
}

// remove ends the watch of a request.
func (x *watched) remove() {
	e := x.by
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, x)
	if len(e.all) == 0 && e.stop != nil {
		e.stop()
		e.stop = nil
	}
}

// begin ends all requests, since the server exits.
func (e *drainer) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	for x := range e.all {
		go e.end(x)
	}
	clear(e.all)
}

// end ends a request with turn.ErrShutdown: at once if the request is not accepted yet, otherwise
// after the drain timeout.
func (e *drainer) end(x *watched) {
	if x.accepted.Load() {
		timer := time.NewTimer(e.drain)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-x.done:
		}
	}
	x.cancel(turn.ErrShutdown)
}

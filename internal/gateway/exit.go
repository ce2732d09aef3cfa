package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// drainer ends exchanges when the server exits. All exchanges share one watch of the exit,
// which lasts while there are any, so that a gateway that a reload has replaced is not kept.
type drainer struct {
	exit  context.Context // see [Options.Exit]
	drain time.Duration

	mu   sync.Mutex
	all  map[*exchange]struct{} // those that are watched, until the exit begins
	over bool                   // the exit has begun
	stop func() bool            // ends the watch of the exit; nil: there is none
}

func newDrainer(exit context.Context, drain time.Duration) *drainer {
	return &drainer{exit: exit, drain: drain, all: make(map[*exchange]struct{})}
}

// add begins to watch an exchange, until remove.
func (e *drainer) add(x *exchange) {
	x.watch, x.gone = e, x.ctx.Done() // x.ctx may be replaced later
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

// remove ends the watch of an exchange.
func (e *drainer) remove(x *exchange) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, x)
	if len(e.all) == 0 && e.stop != nil {
		e.stop()
		e.stop = nil
	}
}

// begin ends all exchanges, since the server exits.
func (e *drainer) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	for x := range e.all {
		go e.end(x)
	}
	clear(e.all)
}

// end ends an exchange with turn.ErrShutdown: at once if no turn of it will start, or else when
// the server has been exiting for the drain timeout.
func (e *drainer) end(x *exchange) {
	if x.accepted.Load() {
		timer := time.NewTimer(e.drain)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-x.gone:
		}
	}
	x.cancel(turn.ErrShutdown)
}

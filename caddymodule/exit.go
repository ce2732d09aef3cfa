package caddymodule

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// exit detects the exit of this Caddy.
var exit = newExitWatch(caddy.Exiting)

// exitLag is the longest time until running requests notice the exit where no event says so.
// A shorter one would cost a lone stream a tenth of its CPU.
const exitLag = time.Second

// exitWatch detects that Caddy is exiting. Caddy then waits for running requests. It emits an
// event before, but only in its current configuration ([App.Handle]), which may not have this
// module any more. Therefore Caddy is polled as well, as long as there are requests. Apps
// stop in random order, perhaps after the HTTP app has waited.
type exitWatch struct {
	exiting func() bool
	begun   context.Context // ends when the exit begins
	begin   context.CancelFunc

	mu    sync.Mutex
	held  int         // how many requests there are
	timer *time.Timer // calls poll; stopped if held is 0
}

func newExitWatch(exiting func() bool) *exitWatch {
	w := &exitWatch{exiting: exiting}
	w.begun, w.begin = context.WithCancel(context.Background())
	return w
}

// now reports whether the exit has begun.
func (w *exitWatch) now() bool {
	if w.exiting() {
		w.begin()
	}
	return w.begun.Err() != nil
}

// hold keeps the polling running until release is called.
func (w *exitWatch) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held++; w.held == 1 {
		w.timer = time.AfterFunc(exitLag, w.poll)
	}
}

// release undoes hold.
func (w *exitWatch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held--; w.held == 0 {
		w.timer.Stop()
	}
}

// poll asks Caddy, and again after exitLag while there are requests and no exit.
func (w *exitWatch) poll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held > 0 && !w.now() {
		w.timer.Reset(exitLag)
	}
}

// ownDeadlines keeps Caddy from setting a deadline before each write and each flush of a
// request's answer, which costs more than a small chunk. It returns the writer of the answer,
// without the one of Caddy that sets the deadlines if that is the outermost. A stream bounds
// its writes itself, by less than Caddy's default; a stricter setting of the operator's stays.
func ownDeadlines(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	_, idle := caddyhttp.IdleTimeoutsFromContext(r.Context())
	if idle == nil {
		return w
	}
	if d := idle.Deadline; d.Timeout < gateway.WriteTimeout || d.MinRate > 0 || !d.HardDeadline.IsZero() {
		return w
	}
	idle.Ctrl = http.NewResponseController(noDeadlines{})
	if w == http.ResponseWriter(idle) {
		return idle.ResponseWriter
	}
	return w
}

// noDeadlines is a response writer that has no deadlines. It is not written to.
type noDeadlines struct{ http.ResponseWriter }

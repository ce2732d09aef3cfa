package caddymodule

import (
	"context"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// exit is when this Caddy exits.
var exit = newExitWatch(caddy.Exiting)

// exitLag is how late a running request may hear of the exit.
const exitLag = 100 * time.Millisecond

// exitWatch notices that Caddy is exiting. Caddy waits for running requests
// then, without telling anybody: an app hears of it after the HTTP app may
// have waited, and requests of a configuration that is gone have no app at all.
// So Caddy is asked, as long as there are requests.
type exitWatch struct {
	exiting func() bool
	begun   context.Context // ends when the exit begins
	begin   context.CancelFunc

	mu   sync.Mutex
	held int           // by requests
	done chan struct{} // ends the watch, while held is above zero
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

// hold keeps the watch going, until release.
func (w *exitWatch) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held++; w.held == 1 {
		w.done = make(chan struct{})
		go w.watch(w.done)
	}
}

// release undoes hold.
func (w *exitWatch) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held--; w.held == 0 {
		close(w.done)
	}
}

// watch asks until the exit begins or nobody wants to know.
func (w *exitWatch) watch(done <-chan struct{}) {
	ticker := time.NewTicker(exitLag)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if w.now() {
				return
			}
		case <-done:
			return
		}
	}
}

package caddymodule

import (
	"context"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// The events of this module. Their origin is the app, "codex".
const (
	eventReady        = "codex.app_server_ready"
	eventUnresponsive = "codex.app_server_unresponsive"
	eventExited       = "codex.app_server_exited"
	eventLogin        = "codex.login_changed"
)

// event is an event of an app-server.
type event struct {
	name string
	data map[string]any
}

// stateTracker derives events from the changes of an app-server's state.
type stateTracker struct {
	last appserver.Status
	pid  int // of the program that runs or has run last
}

// enter takes the next state and returns its events.
func (t *stateTracker) enter(s appserver.Status) (events []event) {
	last := t.last
	t.last = s
	ready := s.State == appserver.StateReady
	over := func(state appserver.State) bool {
		return state == appserver.StateNew || state == appserver.StateBackoff || state == appserver.StateStopped
	}
	startsAtOnce := s.State == appserver.StateStarting && last.State == appserver.StateStopping
	switch {
	case ready && (last.State != appserver.StateReady || s.Replacements != last.Replacements):
		events = append(events, event{eventReady, map[string]any{
			"pid": s.PID, "version": s.Version, "restarts": s.Restarts, "replacements": s.Replacements,
		}})
	case s.State == appserver.StateUnresponsive && last.State != appserver.StateUnresponsive:
		events = append(events, event{eventUnresponsive, map[string]any{
			"pid": s.PID, "version": s.Version, "restarts": s.Restarts, "reason": s.Reason,
		}})
	case over(s.State) && !over(last.State), startsAtOnce:
		events = append(events, event{eventExited, map[string]any{
			"pid": t.pid, "version": s.Version, "restarts": last.Restarts, "reason": s.Reason,
			"stopped": s.State == appserver.StateStopped,
		}})
	}
	switch {
	case s.PID != 0:
		t.pid = s.PID
	case s.State == appserver.StateStarting:
		t.pid = 0
	}
	return events
}

// emitters are the apps of the running configurations, the newest last.
var emitters struct {
	sync.Mutex
	apps []*App
}

// newestEmitter returns the app of the newest running configuration, or nil.
func newestEmitter() *App {
	emitters.Lock()
	defer emitters.Unlock()
	if n := len(emitters.apps); n > 0 {
		return emitters.apps[n-1]
	}
	return nil
}

// emitter emits the events of an app.
type emitter struct {
	ctx    caddy.Context
	events *caddyevents.App
	opened chan struct{} // closed once all apps of the configuration have started
	closed chan struct{} // closed when the configuration is cleaned up
}

// newEmitter loads Caddy's app for events. No event may be emitted before all apps have
// started, since they may still subscribe.
func newEmitter(ctx caddy.Context, app *App) (*emitter, error) {
	loaded, err := ctx.App("events")
	if err != nil {
		return nil, err
	}
	e := &emitter{ctx: ctx, events: loaded.(*caddyevents.App), opened: make(chan struct{}), closed: make(chan struct{})}
	return e, e.events.On("started", startedHandler{sync.OnceFunc(func() {
		emitters.Lock()
		defer emitters.Unlock()
		emitters.apps = append(emitters.apps, app)
		close(e.opened)
	})})
}

// close removes the app from the emitters. It may be called more than once.
func (e *emitter) close(app *App) {
	emitters.Lock()
	defer emitters.Unlock()
	emitters.apps = slices.DeleteFunc(emitters.apps, func(other *App) bool { return other == app })
	if !e.isClosed() {
		close(e.closed)
	}
}

// isClosed reports whether the configuration was cleaned up.
func (e *emitter) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// startedHandler handles Caddy's event that a configuration has started.
type startedHandler struct {
	do func()
}

// Handle calls the function of the handler.
func (h startedHandler) Handle(context.Context, caddy.Event) error {
	h.do()
	return nil
}

// emit emits e to the events app of the process's current configuration. It waits for a
// configuration that is about to start.
func emit(current func() *App, e event) {
	for {
		app := current()
		if app == nil {
			return // Caddy is exiting
		}
		select {
		case <-app.emitter.opened:
			app.emitter.events.Emit(app.emitter.ctx, e.name, e.data)
			return
		case <-app.emitter.closed: // it failed to start; another one may hold the process
		}
	}
}

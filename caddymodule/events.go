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
)

// event is something that has happened to an app-server.
type event struct {
	name string
	data map[string]any
}

// life makes events of the changes of an app-server's state.
type life struct {
	last appserver.Status
	pid  int // of the program that runs or has run last
}

// enter takes the next state.
func (l *life) enter(s appserver.Status) (events []event) {
	last := l.last
	l.last = s
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
			"pid": l.pid, "version": s.Version, "restarts": last.Restarts, "reason": s.Reason,
			"stopped": s.State == appserver.StateStopped,
		}})
	}
	switch {
	case s.PID != 0:
		l.pid = s.PID
	case s.State == appserver.StateStarting:
		l.pid = 0
	}
	return events
}

// stages are the apps of configurations that run, the newest last.
var stages struct {
	sync.Mutex
	apps []*App
}

// newestStage is the app of the newest configuration that runs, or nil.
func newestStage() *App {
	stages.Lock()
	defer stages.Unlock()
	if n := len(stages.apps); n > 0 {
		return stages.apps[n-1]
	}
	return nil
}

// stage is what an app needs to tell of events.
type stage struct {
	ctx    caddy.Context
	events *caddyevents.App
	opened chan struct{} // closed once all apps of the configuration have started
	closed chan struct{} // closed when the configuration has gone
}

// newStage finds Caddy's app for events. Before all apps have started none may
// be emitted: the subscriptions are still being made.
func newStage(ctx caddy.Context, app *App) (*stage, error) {
	loaded, err := ctx.App("events")
	if err != nil {
		return nil, err
	}
	s := &stage{ctx: ctx, events: loaded.(*caddyevents.App), opened: make(chan struct{}), closed: make(chan struct{})}
	return s, s.events.On("started", startedHandler{sync.OnceFunc(func() {
		stages.Lock()
		defer stages.Unlock()
		stages.apps = append(stages.apps, app)
		close(s.opened)
	})})
}

// close takes the app off the stage. It may be called more than once.
func (s *stage) close(app *App) {
	stages.Lock()
	defer stages.Unlock()
	stages.apps = slices.DeleteFunc(stages.apps, func(other *App) bool { return other == app })
	if !s.isClosed() {
		close(s.closed)
	}
}

// isClosed reports whether the configuration has gone.
func (s *stage) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// startedHandler waits for Caddy's event that a configuration runs.
type startedHandler struct {
	do func()
}

// Handle does what was waiting for it.
func (h startedHandler) Handle(context.Context, caddy.Event) error {
	h.do()
	return nil
}

// tell emits an event where subscribers of the process's configuration hear of
// it. It waits for a configuration that is about to run.
func tell(find func() *App, e event) {
	for {
		app := find()
		if app == nil {
			return // Caddy is ending
		}
		select {
		case <-app.stage.opened:
			app.stage.events.Emit(app.stage.ctx, e.name, e.data)
			return
		case <-app.stage.closed: // it was refused; another one may hold the process
		}
	}
}

package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/models"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App runs the app-servers of the `codex` handlers in a configuration. It has no options: the
// handlers register their app-servers. The processes start with the app, never while a
// configuration is only checked. A reload keeps those that the new configuration uses.
type App struct {
	logger     *slog.Logger
	storage    certmagic.Storage
	ctx        caddy.Context
	events     *caddyevents.App
	open       sync.Once
	opened     chan struct{} // closed once all apps of the configuration have started
	aliases    []string      // the aliases of models in all handlers; complete at Start
	hasKeyFile bool          // a handler has a file of keys; complete at Start

	mu           sync.Mutex
	members      map[string]*member // by their keys
	picking      int                // requests that have not picked a process yet
	releaseBooks []func()
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "codex",
		New: func() caddy.Module { return new(App) },
	}
}

// Provision prepares the app.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger, a.storage = ctx, ctx.Slogger(), ctx.Storage()
	a.members, a.opened = make(map[string]*member), make(chan struct{})
	events, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("loading the events app: %w", err)
	}
	a.events = events.(*caddyevents.App)
	return a.events.Subscribe(&caddyevents.Subscription{
		Events:   []string{eventStarted, eventStopping},
		Handlers: []caddyevents.Handler{a},
	})
}

// register returns the member of a process, of which there may be several with the same
// configuration. Handlers call it while they are provisioned, before the app starts.
func (a *App) register(cfg appserver.Config, ordinal int, limits conversation.Limits) *member {
	key := processOf(processKey(cfg), ordinal)
	a.mu.Lock()
	defer a.mu.Unlock()
	m, ok := a.members[key]
	if !ok {
		m = &member{key: key, pooled: key, cfg: cfg, logger: a.logger, app: a}
		a.members[key] = m
	}
	if limits.Max > 0 { // else this handler keeps nothing, which is its pool's affair
		m.conversations = limits
	}
	return m
}

// enter keeps the processes for a request that is about to pick one, until leave is called.
func (a *App) enter() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.picking++
}

// leave undoes enter.
func (a *App) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.picking--
	a.releaseUnused()
}

// Start starts the processes that do not run yet. It forks them before it returns: a fork
// during the swap of listeners would inherit the old ones and lose waiting connections.
func (a *App) Start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.members {
		m.hold()
	}
	a.keepBooks()
	modelLabels.add(append(a.aliases, models.Default)...)
	return nil
}

// Stop does nothing: streams of this configuration may still run on its processes. A
// process is stopped when its last reference is released.
func (a *App) Stop() error { return nil }

// Cleanup releases the processes once no request is about to pick one, and stores the books.
func (a *App) Cleanup() error {
	a.mu.Lock()
	startedApps.remove(a)
	a.releaseUnused()
	books := a.releaseBooks
	a.mu.Unlock() // requests of this configuration go on
	var stored sync.WaitGroup
	for _, release := range books {
		stored.Go(release) // at once: a storage may hang
	}
	stored.Wait()
	return nil
}

// releaseUnused releases the processes once the configuration was cleaned up and no
// request is about to pick one. The caller holds the lock.
func (a *App) releaseUnused() {
	if !a.isClosed() || a.picking > 0 {
		return
	}
	for _, m := range a.members {
		m.release()
	}
}

// startedApps are the apps of the running configurations, the newest last.
var startedApps list[*App]

// The events of Caddy that an App handles.
const (
	eventStarted  = "started"
	eventStopping = "stopping"
)

// Handle handles the events that the configuration has started, and that it is about to stop.
// No event may be emitted before all apps have started, since they may still subscribe.
func (a *App) Handle(_ context.Context, e caddy.Event) error {
	if e.Name() == eventStopping {
		exit.follow(a)
		return nil
	}
	a.open.Do(func() {
		startedApps.add(a)
		close(a.opened)
	})
	return nil
}

// isClosed reports whether the configuration is being cleaned up, or was.
func (a *App) isClosed() bool {
	return a.ctx.Context == nil || a.ctx.Err() != nil // nil: the app was not provisioned
}

// exit detects the exit of this Caddy.
var exit = newExitWatch(caddy.Exiting)

// exitLag is the longest time until requests notice the exit where no event says so.
const exitLag = 100 * time.Millisecond

// exitWatch detects that Caddy is exiting, before it waits for running requests, also those of
// earlier configurations: by an event of its current configuration ([App.Handle]), by a new
// request or, where the current configuration lacks this module, by asking Caddy.
type exitWatch struct {
	exiting func() bool
	begun   context.Context // ends when the exit begins
	begin   context.CancelFunc
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

// follow asks Caddy whether it is exiting, now that the configuration of an app ends, and as
// long as processes have requests of it and no newer configuration gets the event.
func (w *exitWatch) follow(a *App) {
	newest := startedApps.last()
	if w.now() || newest != nil && newest != a || len(allProcesses()) == 0 {
		return
	}
	time.AfterFunc(exitLag, func() { w.follow(a) })
}

// list is what configurations have registered, the newest last. It is safe for concurrent use.
type list[T comparable] struct {
	mu    sync.Mutex
	items []T
}

func (l *list[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = append(l.items, item)
}

// remove removes an item. It may be called more than once.
func (l *list[T]) remove(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = slices.DeleteFunc(l.items, func(other T) bool { return other == item })
}

// last returns the newest item, or the zero value.
func (l *list[T]) last() (item T) {
	if all := l.all(); len(all) > 0 {
		item = all[len(all)-1]
	}
	return item
}

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

// inUse are the handlers of all configurations that get requests, not those that only finish.
var inUse list[*Handler]

// queue counts the turns that run, the requests that wait, and the bytes of their bodies.
func queue() (running, waiting int, bodies int64) {
	for _, h := range inUse.all() {
		r, w := h.gateway.Queue()
		running, waiting, bodies = running+r, waiting+w, bodies+h.gateway.BodyMemory()
	}
	return running, waiting, bodies
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

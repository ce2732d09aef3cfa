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

	"github.com/caddy-codex/caddy-codex/caddymodule/storemodules"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App runs the app-servers of the `codex` handlers in a configuration. It has no options: the
// handlers register their app-servers. The processes start with the app, not when a configuration
// is only validated. A reload keeps the processes that the new configuration uses.
type App struct {
	logger      *slog.Logger
	servers     *pool.Configuration
	aliases     []string       // the model aliases of all handlers; all are known when Start is called
	storeStarts []func() error // each starts the store of a handler; all are known when Start is called

	handlers     []*Handler // of the configuration; all are known when Start is called
	releaseBooks []func()   // set by keepBooks, called by Cleanup
}

// supervisor runs the app-servers of all configurations.
var supervisor = pool.NewSupervisor(pool.Options{
	Exiting:    func() bool { return exit.hasBegun() },
	Ready:      learnModels,
	LimitsTold: limitsTold,
})

// runningResponses are the responses that are being made. A reload keeps them.
var runningResponses = objects.NewRunning()

func init() {
	// When Caddy exits, it waits by itself only for running requests. This function also waits for
	// background responses, whose requests have ended, stores what these have counted, and then
	// stops the processes.
	caddy.OnExit(func(ctx context.Context) {
		exit.begin()
		runningResponses.Wait(ctx) // each response ends after its drain timeout at the latest
		recordings.Wait()
		usageKeeper.Flush()
		keyLedgerKeeper.Flush()
		storemodules.StoreLateCounts()
		supervisor.Stop()
	})
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
	a.logger = ctx.Slogger()
	if err := ctx.GetMetricsRegistry().Register(registry); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	loaded, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("loading the events app: %w", err)
	}
	events := loaded.(*caddyevents.App)
	a.servers = supervisor.NewConfiguration(ctx, a.logger, func(name string, data map[string]any) {
		events.Emit(ctx, name, data)
	})
	return events.Subscribe(&caddyevents.Subscription{
		Events:   []string{"started", "stopping"},
		Handlers: []caddyevents.Handler{a},
	})
}

// Start starts the stores, and the processes that do not run yet. The processes are forked before
// Start returns, because Caddy replaces its listeners afterwards. A process that is forked during
// the replacement would inherit the old listeners, and connections that wait at them would be lost.
func (a *App) Start() error {
	for _, start := range a.storeStarts {
		if err := start(); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	for _, h := range a.handlers {
		if h.isExposed() {
			a.logger.Warn(exposedWarning, "listen", h.server.Listen)
		}
	}
	a.servers.Start()
	a.keepBooks()
	modelLabels.add(append(a.aliases, prompt.DefaultModel)...)
	return nil
}

// limitsOf returns where requests with the keys of a codex_keys count: where those of a codex with the same file
// do, or else at all nodes, if any codex counts there.
func (a *App) limitsOf(k *Keys) *quota.Limits {
	found := localLimits
	for _, h := range a.handlers {
		if h.APIKeysFile == k.APIKeysFile {
			return h.limits
		}
		if h.limits != localLimits {
			found = h.limits
		}
	}
	return found
}

// Stop does nothing: streams may still run on the processes, which end when nothing uses them any more.
func (a *App) Stop() error { return nil }

// Cleanup releases the processes, or lets the last lease of a request release them. It also stores the
// counts of the usage and of the API keys, if no other configuration uses them.
func (a *App) Cleanup() error {
	if a.servers != nil { // otherwise, the app was not provisioned
		a.servers.Release()
	}
	for _, release := range a.releaseBooks {
		release()
	}
	return nil
}

// Handle handles two events of Caddy: the configuration has started, or is about to stop. Other apps may
// subscribe until the configuration has started, so this module emits no event before.
func (a *App) Handle(_ context.Context, e caddy.Event) error {
	if e.Name() == "stopping" {
		exit.poll(a)
		return nil
	}
	a.servers.Open()
	return nil
}

// exit detects the exit of this Caddy.
var exit = newExitWatch(caddy.Exiting)

// exitPollInterval is the time between two checks by poll whether Caddy is exiting. If no event
// reports the exit, requests notice it after this time at most.
const exitPollInterval = 100 * time.Millisecond

// exitWatch detects an exit of Caddy before Caddy waits for the running requests: by an event of the
// current configuration ([App.Handle]), when a new request asks (hasBegun) or, if the current
// configuration lacks this module, by looking again and again (poll).
type exitWatch struct {
	isCaddyExiting func() bool
	untilBegun     context.Context // ends when the exit begins
	begin          context.CancelFunc
}

func newExitWatch(isCaddyExiting func() bool) *exitWatch {
	w := &exitWatch{isCaddyExiting: isCaddyExiting}
	w.untilBegun, w.begin = context.WithCancel(context.Background())
	return w
}

func (w *exitWatch) hasBegun() bool {
	if w.isCaddyExiting() {
		w.begin()
	}
	return w.untilBegun.Err() != nil
}

// poll is called when the configuration of the app a ends. It checks again after each exitPollInterval,
// until Caddy exits, no app-server is left, or a newer configuration has this module.
func (w *exitWatch) poll(a *App) {
	newest := supervisor.Newest()
	if w.hasBegun() || newest != nil && newest != a.servers || len(supervisor.All()) == 0 {
		return
	}
	time.AfterFunc(exitPollInterval, func() { w.poll(a) })
}

// list holds what configurations have registered, in order. It is safe for concurrent use.
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

func (l *list[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.items)
}

// handlersInUse get new requests. Handlers of earlier configurations only finish their requests.
var handlersInUse list[*Handler]

// queueTotals returns sums over the handlers in use; bodyBytes are request bodies in memory.
func queueTotals() (running, waiting int, bodyBytes int64) {
	for _, h := range handlersInUse.all() {
		held := h.gateway.Held()
		running, waiting, bodyBytes = running+held.Turns, waiting+held.Waiting, bodyBytes+held.Bodies
	}
	return running, waiting, bodyBytes
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

package caddymodule

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App keeps the app-servers that the `codex` handlers of a configuration use.
// It needs no configuration: the handlers register with it. Processes start
// with the app, never while a configuration is only being checked, and one
// that the next configuration also uses goes on over the reload.
type App struct {
	logger  *slog.Logger
	storage usage.Storage
	stage   *stage
	aliases []string // names of models that the handlers give; complete at Start

	mu           sync.Mutex
	members      map[string]*member // by their keys
	picking      int                // requests that have not picked a process yet
	over         bool               // the configuration is gone
	releaseUsage func()             // nil: it is not kept
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
	a.storage = ctx.Storage()
	a.members = make(map[string]*member)
	stage, err := newStage(ctx, a)
	if err != nil {
		return fmt.Errorf("loading the events app: %w", err)
	}
	a.stage = stage
	return nil
}

// register returns the member for one of the processes that are configured
// alike. It is called by handlers while they are provisioned, before the app
// starts.
func (a *App) register(cfg appserver.Config, ordinal int) (*member, error) {
	key, err := processKey(cfg)
	if err != nil {
		return nil, err
	}
	key = fmt.Sprintf("%s/%d", key, ordinal)
	a.mu.Lock()
	defer a.mu.Unlock()
	m, ok := a.members[key]
	if !ok {
		m = &member{key: key, cfg: cfg, logger: a.logger, app: a}
		a.members[key] = m
	}
	return m, nil
}

// enter keeps the processes beyond the configuration, until leave: a request
// is about to pick one of them.
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

// Start starts the processes that do not run yet: the fork is over when it
// returns, since a fork beside the swap of listeners would hold connections
// that wait in them.
func (a *App) Start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.members {
		m.hold()
	}
	a.keepUsage()
	modelLabels.add(a.aliases...)
	return nil
}

// Stop does nothing: streams of this configuration may still run on its
// processes. A process ends when the last one that holds it lets go.
func (a *App) Stop() error { return nil }

// Cleanup lets go of the processes, those that requests are about to pick
// excepted for as long, and of the usage, which stores it.
func (a *App) Cleanup() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stage != nil {
		a.stage.close(a) // what ends from here on is not this configuration's
	}
	a.over = true
	a.releaseUnused()
	if a.releaseUsage != nil {
		a.releaseUsage()
	}
	return nil
}

// releaseUnused lets go of the processes of a configuration that is gone, once
// no request is about to pick one. The lock is held.
func (a *App) releaseUnused() {
	if !a.over || a.picking > 0 {
		return
	}
	for _, m := range a.members {
		m.release()
	}
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

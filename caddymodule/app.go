package caddymodule

import (
	"log/slog"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

func init() {
	caddy.RegisterModule(new(App))
}

// App keeps the app-servers that the `codex` handlers of a configuration use.
// It needs no configuration: the handlers register with it. Processes start
// with the app, never while a configuration is only being checked, and one
// that the next configuration also uses goes on over the reload.
type App struct {
	logger *slog.Logger

	mu        sync.Mutex
	upstreams map[string]*upstream // by processKey
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
	a.upstreams = make(map[string]*upstream)
	return nil
}

// register returns the upstream for a process. It is called by handlers while
// they are provisioned, before the app starts.
func (a *App) register(cfg codexrpc.ProcessConfig) (*upstream, error) {
	key, err := processKey(cfg)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u, ok := a.upstreams[key]
	if !ok {
		u = &upstream{key: key, cfg: cfg, logger: a.logger}
		a.upstreams[key] = u
	}
	return u, nil
}

// Start starts the processes that do not run yet: the fork is over when it
// returns, since a fork beside the swap of listeners would hold connections
// that wait in them.
func (a *App) Start() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.upstreams {
		if err := u.hold(); err != nil {
			return err
		}
	}
	return nil
}

// Stop does nothing: streams of this configuration may still run on its
// processes. A process ends when the last one that holds it lets go.
func (a *App) Stop() error { return nil }

// Cleanup lets go of the processes.
func (a *App) Cleanup() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range a.upstreams {
		u.release()
	}
	return nil
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

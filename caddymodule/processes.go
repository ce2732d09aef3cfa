package caddymodule

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
)

// processes holds every app-server of this Caddy, by processKey. A reference
// is held by each configuration that names the process and by each request
// that runs on it, so that it ends with the last of them.
var processes = caddy.NewUsagePool()

// stopping counts processes that are being stopped in the background.
var stopping sync.WaitGroup

func init() {
	// Without this, the exit of Caddy could overtake a stop that is under way.
	caddy.OnExit(func(context.Context) { stopping.Wait() })
}

// process is a pooled app-server.
type process struct {
	*codexrpc.Process

	mu      sync.Mutex
	holders []*upstream // configurations; the last one's log is the process's
}

// hold makes a configuration a holder: the process may be older than that and
// is to use its log.
func (p *process) hold(u *upstream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = append(p.holders, u)
	p.SetLogger(u.logger)
}

// release undoes hold. The log of a configuration that failed to start is
// closed; then that of the one before goes on.
func (p *process) release(u *upstream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = slices.DeleteFunc(p.holders, func(other *upstream) bool { return other == u })
	if n := len(p.holders); n > 0 {
		p.SetLogger(p.holders[n-1].logger)
	}
}

// Destruct stops the process. During a reload that is done in the background,
// since Destruct may run inside the request that loads the configuration.
func (p *process) Destruct() error {
	if caddy.Exiting() {
		p.Stop()
		return nil
	}
	stopping.Add(1)
	go func() {
		defer stopping.Done()
		p.Stop()
	}()
	return nil
}

// upstream is one app-server as a configuration knows it.
type upstream struct {
	key    string
	cfg    codexrpc.ProcessConfig
	logger *slog.Logger

	mu   sync.Mutex
	held *process // the configuration's own reference
}

// acquire takes a reference to the process, starting it if nobody else has.
func (u *upstream) acquire() (*process, error) {
	value, _, err := processes.LoadOrNew(u.key, func() (caddy.Destructor, error) {
		p := codexrpc.NewProcess(u.cfg, u.logger)
		p.Start()
		return &process{Process: p}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("taking the app-server: %w", err)
	}
	return value.(*process), nil
}

// letGo gives a reference back.
func (u *upstream) letGo() {
	if _, err := processes.Delete(u.key); err != nil {
		u.logger.Error("stopping the codex app-server", "error", err)
	}
}

// hold takes the configuration's reference.
func (u *upstream) hold() error {
	p, err := u.acquire()
	if err != nil {
		return err
	}
	p.hold(u)
	u.mu.Lock()
	u.held = p
	u.mu.Unlock()
	return nil
}

// release gives the configuration's reference back, if it was ever taken.
func (u *upstream) release() {
	u.mu.Lock()
	held := u.held
	u.held = nil
	u.mu.Unlock()
	if held != nil {
		held.release(u)
		u.letGo()
	}
}

// Lease takes a reference for one request. It is what keeps a process alive
// under the streams of a configuration that is gone.
func (u *upstream) Lease() (gateway.Lease, error) {
	p, err := u.acquire()
	if err != nil {
		return nil, err
	}
	return &held{process: p.Process, release: sync.OnceFunc(u.letGo)}, nil
}

// held is a request's reference to a process.
type held struct {
	process *codexrpc.Process
	release func()
}

// Pick gives the one process that there is.
func (l *held) Pick() (*codexrpc.Process, func()) { return l.process, func() {} }

// Release gives the reference back.
func (l *held) Release() { l.release() }

// Interface guard
var _ gateway.Upstream = (*upstream)(nil)

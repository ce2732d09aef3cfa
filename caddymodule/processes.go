package caddymodule

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// processes holds every app-server of this Caddy, by the keys of members. A
// reference is held by each configuration that names the process and by each
// turn that runs on it, so that it ends with the last of them.
var processes = caddy.NewUsagePool()

// stopping are the processes that are being stopped in the background.
var stopping = newStops()

func init() {
	// Without this, the exit of Caddy could overtake a stop.
	caddy.OnExit(func(context.Context) { stopAll() })
}

// stopAll stops all processes, also those under requests that Caddy did not
// wait for, and waits for their ends.
func stopAll() {
	processes.Range(func(_, value any) bool {
		stopping.Go(value.(*process).Stop)
		return true
	})
	stopping.Wait()
}

// process is a pooled app-server.
type process struct {
	*appserver.Process
	turns   atomic.Int64 // that run on it, of all configurations
	watch   *watch
	creator *App

	mu      sync.Mutex
	holders []*member // configurations; the last one's log is the process's
	held    bool      // there was a holder
}

// stage is the app whose events tell of the process: that of the last holder
// that has not gone.
func (p *process) stage() *App {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range slices.Backward(p.holders) {
		if !m.app.stage.isClosed() {
			return m.app
		}
	}
	if !p.held && !p.creator.stage.isClosed() {
		return p.creator // it is about to hold the process
	}
	return newestStage()
}

// hold makes a configuration a holder: the process may be older than that and
// is to use its log.
func (p *process) hold(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = append(p.holders, m)
	p.held = true
	p.SetLogger(m.logger)
}

// release undoes hold. The log of a configuration that failed to start is
// closed; then that of the one before goes on.
func (p *process) release(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders = slices.DeleteFunc(p.holders, func(other *member) bool { return other == m })
	if n := len(p.holders); n > 0 {
		p.SetLogger(p.holders[n-1].logger)
	}
}

// Destruct stops the process, in the background, since it may run inside the
// request that loads a configuration. The exit of Caddy waits for that.
func (p *process) Destruct() error {
	stopping.Go(p.end)
	return nil
}

// end stops the process, and then its watch.
func (p *process) end() {
	p.Stop()
	p.watch.end()
}

// member is one app-server's process as a configuration knows it.
type member struct {
	key    string
	cfg    appserver.Config
	logger *slog.Logger
	app    *App

	mu   sync.Mutex
	held *process // the configuration's own reference
}

// acquire takes a reference to the process, starting it if nobody else has.
func (m *member) acquire() *process {
	// Without an error of the constructor there is none.
	value, _, _ := processes.LoadOrNew(m.key, func() (caddy.Destructor, error) {
		p := &process{Process: appserver.New(m.cfg, m.logger), creator: m.app}
		p.watch = newWatch(m.key, m.cfg, p.Process, p.stage)
		p.Start()
		return p, nil
	})
	return value.(*process)
}

// letGo gives a reference back.
func (m *member) letGo() {
	if _, err := processes.Delete(m.key); err != nil {
		m.logger.Error("stopping the codex app-server", "error", err)
	}
}

// current is the process that the configuration holds, or nil.
func (m *member) current() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// hold takes the configuration's reference.
func (m *member) hold() {
	p := m.acquire()
	p.hold(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = p
}

// release gives the configuration's reference back, if it was ever taken.
func (m *member) release() {
	m.mu.Lock()
	held := m.held
	m.held = nil
	m.mu.Unlock()
	if held != nil {
		held.release(m)
		m.letGo()
	}
}

// Package appserver keeps a `codex app-server` running, or stays connected to
// one that runs elsewhere.
//
// A [Process] starts the program in a private home, shakes hands with it, starts
// it again when it fails, replaces it when it hangs or grows too large, and stops
// it with everything that it has started. [Process.Conn] is the connection to
// the instance that takes new turns.
package appserver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver/issuer"
)

// maxRetryWait is how long Conn waits for the next start.
const maxRetryWait = 2 * time.Second

// Process keeps one app-server running: it starts the program, restarts it
// with backoff when it fails, replaces it when it grows too large or leaves calls
// unanswered, and stops it. A remote app-server is connected to, with the same
// states. All methods are safe for concurrent use.
type Process struct {
	cfg      Config
	address  string // of a remote app-server
	logger   atomic.Pointer[slog.Logger]
	observer atomic.Pointer[func(Status)]
	ctx      context.Context // ends with the first Stop; its cause is errStopped
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when the supervisor has ended
	withLog  atomic.Bool   // new instances have Codex's log, since one did not start without

	// Used by the supervisor.
	failures     backoff            // of starts
	replaceEvery time.Duration      // see replaceEvery
	heartbeat    codexrpc.Heartbeat // of instances that are children
	events       chan func(*supervisor)
	background   sync.WaitGroup // goroutines that end before the process does
	drainLimit   time.Duration  // see drainLimit
	drainGrace   time.Duration  // see drainGrace

	mu         sync.Mutex
	dir        string        // working directory; if cfg has none it is set with private
	private    *privateDir   // made for the first child; nil: there is none
	relay      *issuer.Relay // made for the first child with a login; nil: there is none
	models     *catalogue    // of the serving instance; nil: there is none
	provider   providerSettings
	sockets    socketPause // of the model's provider
	started    bool
	stopped    bool
	status     Status
	memory     int64          // of the serving instance; 0: not known
	conn       *codexrpc.Conn // of the serving instance, in StateReady and StateUnresponsive only
	draining   []*instance
	operator   string     // the CODEX_HOME of the login; empty: not known
	login      LoginFiles // as far as it is kept
	list       modelList
	account    accountState
	acceptance map[*codexrpc.Conn]*Acceptance
	unfinished []string      // threads of lost connections to a remote app-server
	changed    chan struct{} // closed and replaced at each change of the status
}

// New makes a process that is not started. cfg needs a Command, a Start or a
// Connect.
func New(cfg Config, logger *slog.Logger) *Process {
	p := &Process{
		cfg:          cfg,
		done:         make(chan struct{}),
		failures:     newBackoff(),
		replaceEvery: replaceEvery,
		heartbeat:    codexrpc.Heartbeat{Every: probeEvery, Wait: probeWait, MaxMissed: maxMissed},
		events:       make(chan func(*supervisor)),
		drainLimit:   drainLimit,
		drainGrace:   drainGrace,
		dir:          cfg.Dir,
		changed:      make(chan struct{}),
		acceptance:   make(map[*codexrpc.Conn]*Acceptance),
	}
	if cfg.StartTimeout <= 0 {
		p.cfg.StartTimeout = 10 * time.Second
	}
	if cfg.StopTimeout <= 0 {
		p.cfg.StopTimeout = 5 * time.Second
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	if codexrpc.CheckAddress(cfg.Connect) == nil {
		p.address = cfg.Connect // a valid address has no credentials
	}
	p.SetLogger(logger)
	return p
}

// SetObserver sets the function that is called after each change: a new state, a
// replacement, the end of a draining app-server. The calls come one after another,
// without locks held, from Start and then from the goroutine that supervises the process,
// so that the observer must be quick and must not call Restart or Stop. Nil: none.
func (p *Process) SetObserver(observer func(Status)) { p.observer.Store(&observer) }

// observe calls the observer.
func (p *Process) observe() {
	if observer := p.observer.Load(); observer != nil && *observer != nil {
		(*observer)(p.Status())
	}
}

// SetLogger sets the logger, also of a running connection: a process may outlive
// the configuration that started it. Nil: nothing is logged.
func (p *Process) SetLogger(logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p.logger.Store(logger)
}

func (p *Process) log() *slog.Logger { return p.logger.Load() }

// Start starts the app-server and supervises it until Stop. The forks are over when
// it returns, so that none happens while a server swaps its listeners. A remote
// app-server is dialled in the background. A failure is retried with backoff, and
// Status has the reason. Start does nothing if the process was started or stopped
// before.
func (p *Process) Start() {
	p.mu.Lock()
	begins := !p.started && !p.stopped
	p.started = true
	p.mu.Unlock()
	if !begins {
		return
	}
	if p.cfg.Connect == "" && p.cfg.Start == nil {
		p.background.Go(func() { sweepPrivateDirs(p.ctx, p.log()) })
	}
	s := &supervisor{Process: p}
	s.start("")
	go s.run()
}

// Stop ends the process and everything that it has started, and waits for that, for
// little more than the stop timeout. It may be called more than once.
func (p *Process) Stop() {
	p.mu.Lock()
	unused := !p.started && !p.stopped
	p.stopped = true
	if unused {
		p.setStatus(Status{State: StateStopped, Reason: errStopped.Error()})
	}
	p.mu.Unlock()
	p.cancel(errStopped)
	if unused {
		p.observe()
		close(p.done)
	}
	<-p.done
}

// Conn returns the connection to a ready app-server. It waits while a start is under
// way or due within two seconds, and while the app-server is unresponsive. It fails
// with a *NotReadyError when the process keeps failing or has been stopped, or with
// ctx.
func (p *Process) Conn(ctx context.Context) (*codexrpc.Conn, error) {
	for {
		p.mu.Lock()
		status, conn, stopped, changed := p.status, p.conn, p.stopped, p.changed
		p.mu.Unlock()
		switch {
		case status.State == StateReady && conn.Err() == nil:
			return conn, nil
		case stopped, status.State == StateBackoff && time.Until(status.RetryAt) > maxRetryWait:
			return nil, status.notReady()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Serving returns the connection that new turns get, or nil if the process is not
// ready.
func (p *Process) Serving() *codexrpc.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

// FallbackCatalogue is [Model].Catalogue for a model that neither Codex nor the back end of
// its login knows; empty: there is none. Without it a long history would be replaced by a
// summary.
func (p *Process) FallbackCatalogue() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.models == nil {
		return ""
	}
	return p.models.fallback
}

// Dir returns the working directory of the app-server, once started. It returns ""
// for a remote one.
func (p *Process) Dir() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dir
}

// Status returns the status of the process.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	status.Remote, status.Address = p.cfg.Connect != "", p.address
	status.Memory, status.Draining = p.memory, len(p.draining)
	if p.conn != nil {
		status.Threads = p.conn.Threads()
		if a := p.acceptance[p.conn]; a != nil {
			status.Strict, status.SerialModels = a.Strict(), a.SerialModels()
		}
	}
	for _, in := range p.draining {
		status.Threads += in.conn.Threads()
	}
	return status
}

// change sets the status and calls the observer.
func (p *Process) change(next Status) {
	p.mu.Lock()
	p.setStatus(next)
	p.mu.Unlock()
	p.observe()
}

// setStatus sets the status and keeps what does not depend on the state. The lock is
// held.
func (p *Process) setStatus(next Status) {
	next.Since = time.Now()
	if next.State == p.status.State { // with another instance
		next.Since = p.status.Since
	}
	next.Restarts, next.Replacements = p.status.Restarts, p.status.Replacements
	if next.State == StateUnresponsive || next.State == StateReady && next.PID == p.status.PID {
		next.Account, next.Refused, next.Silent = p.status.Account, p.status.Refused, p.status.Silent
	}
	if next.Version == "" {
		next.Version = p.status.Version
	}
	if next.State == StateStarting { // what is known of the failure before
		next.Remedy, next.Final, next.SignedOut = p.status.Remedy, p.status.Final, p.status.SignedOut
	}
	if next.State != StateReady && next.State != StateUnresponsive {
		p.conn, p.memory = nil, 0
	}
	p.status = next
	p.signal()
}

// do has the supervisor call f, unless the process is stopped.
func (p *Process) do(f func(*supervisor)) {
	select {
	case p.events <- f:
	case <-p.ctx.Done():
	}
}

// update makes a change, and wakes everybody who waits for one.
func (p *Process) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.signal()
}

// signal wakes everybody who waits for a change. The lock is held.
func (p *Process) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

package appserver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// Status is what a process is doing, for readiness, metrics and operators.
type Status struct {
	State    State
	Since    time.Time // when it came into State
	Reason   string    // why it is not ready, for its operator; empty when ready or never started
	Remedy   string    // what to do about Reason, for everybody; empty when nothing is known to be wrong
	RetryAt  time.Time // when the next start is due, in StateBackoff
	PID      int       // of the running program, else 0
	Version  string    // of the app-server, once it has told
	Restarts int       // starts after the first
	// Replacements are the app-servers, or connections to a remote one, that
	// took over from another without a failure.
	Replacements int
	Remote       bool   // it runs elsewhere: there is only a connection
	Address      string // of a remote one, without credentials
	Memory       int64  // of the one that takes new turns, resident, in bytes; 0: unknown
	Threads      int    // open threads of ours, also on those that drain
	Draining     int    // replaced ones that still have turns
	Strict       bool   // see [codexrpc.Conn.Strict]
}

// Process keeps one app-server running: it starts the program, restarts it
// with backoff when it fails, replaces it when it grows too large, and stops
// it. One that runs elsewhere it connects to, with the same states. All methods
// are safe for concurrent use.
type Process struct {
	cfg      Config
	address  string // of a remote app-server, for people to read
	logger   atomic.Pointer[slog.Logger]
	observer atomic.Pointer[func(Status)]
	stop     chan struct{} // closed by the first Stop
	done     chan struct{} // closed when the supervisor has ended

	// The supervisor's own, and what reaches it.
	failures     backoff            // of starts
	replaceEvery time.Duration      // the shortest pause between two replacements for health
	heartbeat    codexrpc.Heartbeat // of all instances; a remote one may miss more
	probes       chan health        // what probes have found
	orders       chan chan error    // to replace the app-server, with where the answer goes
	drained      chan struct{}      // capacity 1: an instance has drained
	background   sync.WaitGroup     // sweeps, and instances that drain or are given up

	drainLimit, drainGrace time.Duration

	mu       sync.Mutex
	dir      string      // working directory; the private one when cfg has none
	private  *privateDir // made for the first instance of our own; nil: there is none
	models   catalogue   // for threads; empty: there is none
	started  bool
	stopped  bool
	status   Status
	memory   int64          // of the one that serves; 0: unknown
	conn     *codexrpc.Conn // in StateReady and StateUnresponsive only
	draining []*instance    // they were replaced and still have turns
	orphans  []string       // threads of a remote app-server whose connection has ended
	changed  chan struct{}  // closed and replaced at each change of state
}

// New makes a process that is not started. Command must not be empty,
// unless there is a Start or a Connect.
func New(cfg Config, logger *slog.Logger) *Process {
	p := &Process{
		cfg:          cfg.withDefaults(),
		stop:         make(chan struct{}),
		done:         make(chan struct{}),
		failures:     newBackoff(),
		replaceEvery: replaceEvery,
		heartbeat:    codexrpc.Heartbeat{Every: probeEvery, Wait: probeWait, MaxMissed: maxMissed},
		probes:       make(chan health),
		orders:       make(chan chan error),
		drained:      make(chan struct{}, 1),
		drainLimit:   drainLimit,
		drainGrace:   drainGrace,
		dir:          cfg.Dir,
		changed:      make(chan struct{}),
	}
	if codexrpc.CheckAddress(cfg.Connect) == nil {
		p.address = cfg.Connect // it has no credentials
	}
	p.SetLogger(logger)
	return p
}

// SetObserver replaces who is told of each change: a new state, a replacement,
// the end of one that drained. The calls come one after another, outside of all
// locks, from the goroutine that supervises the process, so that the observer
// must be quick and must not call Restart or Stop. Nil: nobody.
func (p *Process) SetObserver(observer func(Status)) {
	if observer == nil {
		p.observer.Store(nil)
		return
	}
	p.observer.Store(&observer)
}

// observe tells the observer.
func (p *Process) observe() {
	if observer := p.observer.Load(); observer != nil {
		(*observer)(p.Status())
	}
}

// SetLogger replaces the logger, also that of a running connection: a process
// may outlive the configuration that started it, and its log.
func (p *Process) SetLogger(logger *slog.Logger) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p.logger.Store(logger)
}

func (p *Process) log() *slog.Logger { return p.logger.Load() }

// Start forks the program, and the run that prints its catalogue, before it
// returns, so that no fork happens while a server swaps its listeners, and
// supervises it from then on. A remote app-server is dialled in the background.
// A failed fork or dial is no error here: it is tried again with backoff, and
// Status says why. Starting a process again, or after its Stop, does nothing.
func (p *Process) Start() {
	p.mu.Lock()
	if p.started || p.stopped {
		p.mu.Unlock()
		return
	}
	p.started = true
	p.enter(Status{State: StateStarting})
	p.mu.Unlock()
	p.observe()
	if p.cfg.Connect == "" && p.cfg.Start == nil {
		p.background.Go(func() { sweepPrivateDirs(p.stop, p.log()) })
	}
	in, err := p.launch()
	if err == nil {
		p.forked(in)
	}
	go p.supervise(in, err)
}

// forked notes which program is being started.
func (p *Process) forked(in *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.PID = in.pid()
	p.hasChanged()
}

// Catalogue is the file that the model_catalog_json of a thread is to name, so
// that this model is offered no tools of Codex's own and gets the whole history.
// Empty: there is none, or it does not know the model, which the provider may
// know all the same. A remote app-server has none, since it reads its own files:
// it is to be started with one.
func (p *Process) Catalogue(model string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.models.find(model) == nil {
		return ""
	}
	return p.models.path
}

// FallbackCatalogue is the same for a model that Codex does not know either (see
// [codexrpc.Conn.Models]), without which a long history would be replaced by a summary.
// Empty: there is none.
func (p *Process) FallbackCatalogue() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.models.fallback
}

// Dir is the app-server's working directory, once started. For a remote one it
// is what was configured, a path over there, or empty: its own.
func (p *Process) Dir() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dir
}

// Status returns what the process is doing.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	status.Remote, status.Address = p.cfg.Connect != "", p.address
	status.Memory, status.Draining = p.memory, len(p.draining)
	if p.conn != nil {
		status.Threads = p.conn.Threads()
		status.Strict = p.conn.Strict()
	}
	for _, in := range p.draining {
		status.Threads += in.conn.Threads()
	}
	return status
}

// Stop ends the process and all that it has started, and waits for that: the
// stop timeout and a little more at most. It may be called more than once.
func (p *Process) Stop() {
	p.mu.Lock()
	first, unused := !p.stopped, !p.stopped && !p.started
	p.stopped = true
	if unused {
		p.enter(Status{State: StateStopped, Reason: reasonStopped})
	}
	p.mu.Unlock()
	if first {
		close(p.stop)
	}
	if unused {
		p.observe()
		close(p.done)
	}
	<-p.done
}

// soon is how far away the next start may be for Conn to wait for it.
const soon = 2 * time.Second

// Conn returns the connection to a process that is ready. It waits while the
// process starts, or is about to, and while it is unresponsive. It fails with a
// *NotReadyError when the process keeps failing, or has ended for good.
func (p *Process) Conn(ctx context.Context) (*codexrpc.Conn, error) {
	for {
		p.mu.Lock()
		status, conn, stopped, changed := p.status, p.conn, p.stopped, p.changed
		p.mu.Unlock()
		switch {
		case status.State == StateReady && conn.Err() == nil:
			return conn, nil
		case stopped, status.State == StateBackoff && time.Until(status.RetryAt) > soon:
			return nil, &NotReadyError{State: status.State, Reason: status.Reason, Remedy: status.Remedy, RetryAfter: max(0, time.Until(status.RetryAt))}
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

// become moves to a new state.
func (p *Process) become(next Status) {
	p.mu.Lock()
	p.enter(next)
	p.mu.Unlock()
	p.observe()
}

// enter moves to a new state, keeping what outlives states. The lock is held.
func (p *Process) enter(next Status) {
	next.Since = time.Now()
	next.Restarts, next.Replacements = p.status.Restarts, p.status.Replacements
	if next.Version == "" {
		next.Version = p.status.Version
	}
	if next.State == StateStarting {
		next.Remedy = p.status.Remedy // of why it is started again
	}
	if next.State != StateReady && next.State != StateUnresponsive {
		p.conn, p.memory = nil, 0
	}
	p.status = next
	p.hasChanged()
}

// hasChanged wakes those who wait for a change. The lock is held.
func (p *Process) hasChanged() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// ready publishes the connection.
func (p *Process) ready(in *instance) {
	p.mu.Lock()
	p.conn, p.models = in.conn, in.models
	p.enter(Status{State: StateReady, PID: in.pid(), Version: in.version})
	p.mu.Unlock()
	p.observe()
}

package codexrpc

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Status is what a process is doing, for readiness, metrics and operators.
type Status struct {
	State    State
	Since    time.Time // when it came into State
	Reason   string    // why it is not ready; empty when ready or never started
	RetryAt  time.Time // when the next start is due, in StateBackoff
	PID      int       // of the running program, else 0
	Version  string    // of the app-server, once it has told
	Restarts int       // starts after the first
}

// Process keeps one app-server running: it starts the program, restarts it
// with backoff when it fails, and stops it. All methods are safe for
// concurrent use.
type Process struct {
	cfg      ProcessConfig
	logger   atomic.Pointer[slog.Logger]
	failures backoff       // the supervisor's own
	stop     chan struct{} // closed by the first Stop
	done     chan struct{} // closed when the supervisor has ended

	mu      sync.Mutex
	dir     string    // working directory; the private one when cfg has none
	private string    // a directory of its own, made at Start; empty: it could not be made
	models  catalogue // for threads; empty: there is none
	started bool
	stopped bool
	status  Status
	conn    *Conn         // in StateReady only
	changed chan struct{} // closed and replaced at each change of state
}

// NewProcess makes a process that is not started. Command must not be empty.
func NewProcess(cfg ProcessConfig, logger *slog.Logger) *Process {
	p := &Process{
		cfg:      cfg.withDefaults(),
		failures: newBackoff(),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
		dir:      cfg.Dir,
		changed:  make(chan struct{}),
	}
	p.SetLogger(logger)
	return p
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

// Start forks the program before it returns, so that no fork happens while a
// server swaps its listeners, and supervises it from then on. A failed fork is
// no error here: it is tried again with backoff, and Status says why. Starting
// a process again, or after its Stop, does nothing.
func (p *Process) Start() {
	p.mu.Lock()
	if p.started || p.stopped {
		p.mu.Unlock()
		return
	}
	p.started = true
	p.private = p.privateDir()
	if p.dir == "" {
		p.dir = cmp.Or(p.private, os.TempDir())
	}
	p.enter(Status{State: StateStarting})
	p.mu.Unlock()
	c, err := p.spawn()
	go p.supervise(c, err)
}

// privateDir makes a directory in which no other program keeps anything.
func (p *Process) privateDir() string {
	dir, err := os.MkdirTemp("", "codex-work-")
	if err != nil {
		p.log().Error("making a private directory for codex", "error", err)
	}
	return dir
}

// removeDir removes the private directory.
func (p *Process) removeDir() {
	if p.private == "" {
		return
	}
	if err := os.RemoveAll(p.private); err != nil {
		p.log().Warn("removing the private directory of codex", "error", err)
	}
}

// Catalogue is the file that the model_catalog_json of a thread is to name, so
// that this model is offered no tools of Codex's own. Empty: there is none, or
// it does not know the model, which the provider may know all the same.
func (p *Process) Catalogue(model string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.models.knows(model) {
		return ""
	}
	return p.models.path
}

// Dir is the app-server's working directory, once started.
func (p *Process) Dir() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dir
}

// Status returns what the process is doing.
func (p *Process) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// Stop ends the process and all that it has started, and waits for that: the
// stop timeout and a little more at most. It may be called more than once.
func (p *Process) Stop() {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.stop)
		if !p.started {
			p.enter(Status{State: StateStopped, Reason: reasonStopped})
			close(p.done)
		}
	}
	p.mu.Unlock()
	<-p.done
}

// Conn returns the connection to a process that is ready. It waits while the
// process starts, and fails with a *NotReadyError when it has failed.
func (p *Process) Conn(ctx context.Context) (*Conn, error) {
	for {
		p.mu.Lock()
		status, conn, changed := p.status, p.conn, p.changed
		p.mu.Unlock()
		switch status.State {
		case StateReady:
			if conn.Err() == nil {
				return conn, nil
			}
			// It has just ended; the supervisor is about to say so.
		case StateStarting, StateNew:
		default:
			return nil, &NotReadyError{State: status.State, Reason: status.Reason, RetryAfter: max(0, time.Until(status.RetryAt))}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// become moves to a new state.
func (p *Process) become(next Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(next)
}

// enter moves to a new state, keeping what outlives states. The lock is held.
func (p *Process) enter(next Status) {
	next.Since = time.Now()
	next.Restarts = p.status.Restarts
	if next.Version == "" {
		next.Version = p.status.Version
	}
	if next.State == StateStarting && p.status.State == StateBackoff {
		next.Restarts++
	}
	if next.State != StateReady {
		p.conn = nil
	}
	p.status = next
	close(p.changed)
	p.changed = make(chan struct{})
}

// ready publishes the connection.
func (p *Process) ready(c *child, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = c.conn
	p.enter(Status{State: StateReady, PID: c.pid(), Version: version})
}

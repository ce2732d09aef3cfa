// Package appserver keeps a `codex app-server` running.
//
// A [Process] starts the program in a private home (its own CODEX_HOME and home directory) and initializes
// the connection. It restarts a program that fails, and replaces one that hangs or grows too large.
// [Process.Stop] stops the program and everything that the program has started. [Process.Instance] is the
// instance that gets new turns.
package appserver

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// [Process.Instance] does not wait for a start that is more than maxRetryWait away; it fails immediately.
const maxRetryWait = 2 * time.Second

// Config configures a [Process].
type Config struct {
	// Command is the program and its arguments, for example codex app-server.
	Command []string
	// Start, if not nil, starts an app-server in place of Command, for example within this process.
	// Its catalogue (list of models) is Models, since only a run of Command can print one.
	Start  func() (*Program, error) `json:"-"`
	Models []Model                  `json:"-"`
	// Home is the CODEX_HOME of the operator. The program gets the login and the settings of the
	// model provider from there; all else in the program's own CODEX_HOME is private to the
	// program. Empty: the CODEX_HOME in Env or in this process's environment, or else ~/.codex.
	Home string
	// Env is added to the program's environment. The program also gets variables of this process: those
	// that it needs to run, to reach the network and to log, and those that its model providers name.
	Env map[string]string
	// MaxMemory limits the app-server's memory, in bytes. If the app-server uses more, a new
	// app-server replaces it. 0: no limit. On Linux the process's own memory counts, without the
	// pages of files; elsewhere the resident memory counts.
	MaxMemory int64
	// LunaReserve is whether the reserve of a spent plan may be used, see [codexrpc.ReserveModel].
	LunaReserve bool `json:",omitempty"`
	// Client names this client to the app-server.
	Client codexrpc.ClientInfo

	startTimeout time.Duration // 0: defaultStartTimeout
	stopTimeout  time.Duration // 0: defaultStopTimeout
}

const (
	// defaultStartTimeout bounds a start up to the end of the handshake.
	defaultStartTimeout = 10 * time.Second
	// defaultStopTimeout is how long a stop may take before the program is killed.
	defaultStopTimeout = 5 * time.Second
)

// Process keeps one app-server running: it restarts one that fails, with backoff, and replaces one
// that grows too large or does not answer. All methods are safe for concurrent use.
type Process struct {
	cfg               Config
	times             times
	logger            atomic.Pointer[slog.Logger]
	observer          atomic.Pointer[func(Status)]
	startOrStopCalled atomic.Bool     // Start or Stop was called
	ctx               context.Context // ends with the first Stop; its cause is errStopped
	cancel            context.CancelCauseFunc
	done              chan struct{} // closed when the supervisor has ended

	backoff    backoff                // the pauses after failed starts; used by the supervisor
	tasks      chan func(*supervisor) // run by the supervisor
	background sync.WaitGroup         // goroutines that end before the process does

	published publishedStatus
	sockets   socketPause
	// The children share these. The supervisor makes each when a child first needs it; nil: not yet.
	private atomic.Pointer[privateDir]
	relay   atomic.Pointer[tokenRelay] // gives the children new tokens
}

// times are the waits of a process. Tests use other waits.
type times struct {
	replaceEvery time.Duration      // the shortest pause between two replacements for health
	heartbeat    codexrpc.Heartbeat // the probes
	drainLimit   time.Duration      // how long a replaced app-server may finish its turns
	drainGrace   time.Duration      // how long a replaced app-server runs at least
}

// LunaReserve returns the setting of the configuration.
func (p *Process) LunaReserve() bool { return p.cfg.LunaReserve }

// New makes a process that is not started. cfg needs a Command or a Start.
func New(cfg Config, logger *slog.Logger) *Process {
	p := &Process{
		cfg: cfg,
		times: times{
			replaceEvery: replaceEvery,
			heartbeat:    codexrpc.Heartbeat{Every: probeEvery, Wait: probeWait, MaxMissed: maxMissed},
			drainLimit:   drainLimit,
			drainGrace:   drainGrace,
		},
		done:      make(chan struct{}),
		backoff:   newBackoff(),
		tasks:     make(chan func(*supervisor)),
		published: publishedStatus{changed: make(chan struct{})},
	}
	p.cfg.startTimeout = cmp.Or(cfg.startTimeout, defaultStartTimeout)
	p.cfg.stopTimeout = cmp.Or(cfg.stopTimeout, defaultStopTimeout)
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.SetLogger(logger)
	return p
}

// SetObserver sets the function, or nil, that is called after each change: a new state, a replacement, the
// end of a draining app-server, news about the account. The calls come one after another, without locks
// held: the first from Start, later ones from the goroutine that supervises the process. So the observer
// must be quick and must not call Restart or Stop.
func (p *Process) SetObserver(observer func(Status)) { p.observer.Store(&observer) }

func (p *Process) notifyObserver() {
	if observer := p.observer.Load(); observer != nil && *observer != nil {
		(*observer)(p.Status())
	}
}

// SetLogger sets the logger, even while the process runs: a process may outlive the configuration
// that started it. Nil: nothing is logged.
func (p *Process) SetLogger(logger *slog.Logger) {
	p.logger.Store(cmp.Or(logger, slog.New(slog.DiscardHandler)))
}

// Log returns the logger.
func (p *Process) Log() *slog.Logger { return p.logger.Load() }

// Start starts the app-server and supervises it until Stop. When Start returns, the programs of the
// first start have been forked, so that no fork happens while a server swaps its listeners. After a
// failure, the process tries again with backoff, and Status has the reason. Start does nothing if
// Start or Stop was called before.
func (p *Process) Start() {
	if p.startOrStopCalled.Swap(true) {
		return
	}
	if p.cfg.Start == nil {
		p.background.Go(func() { sweepPrivateDirs(p.ctx, p.Log()) })
	}
	s := &supervisor{Process: p}
	s.start("")
	go s.run()
}

// Stop ends the process and everything that it has started, and waits until all of that has ended.
// This takes at most a little longer than the stop timeout. Stop may be called more than once.
func (p *Process) Stop() {
	neverStarted := !p.startOrStopCalled.Swap(true)
	p.cancel(errStopped)
	if neverStarted {
		p.setStatus(Status{State: StateStopped, Reason: errStopped.Error()})
		close(p.done)
	}
	<-p.done
}

// Instance returns the app-server that accepts turns. If none is ready, Instance waits for one. It
// fails with a *NotReadyError if the process was stopped, if nobody is signed in, or if the next
// start is more than maxRetryWait away. It fails with the cause of ctx if ctx ends.
func (p *Process) Instance(ctx context.Context) (*Instance, error) {
	for {
		status, in, changed := p.published.read()
		switch {
		case status.State == StateReady && in.conn.Err() == nil:
			return &in.Instance, nil
		case p.ctx.Err() != nil, status.State == StateBackoff && (status.SignedOut || time.Until(status.RetryAt) > maxRetryWait):
			return nil, status.notReady()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Ready returns the app-server that accepts turns, or nil if none is ready.
func (p *Process) Ready() *Instance {
	status, in, _ := p.published.read()
	if status.State != StateReady || in.conn.Err() != nil {
		return nil
	}
	return &in.Instance
}

// Serving returns the connection of the serving instance, in StateReady and StateUnresponsive, or nil.
func (p *Process) Serving() *codexrpc.Conn {
	if _, in, _ := p.published.read(); in != nil {
		return in.conn
	}
	return nil
}

// Dir returns the working directory of the app-server: an empty directory that is made at the first
// start, and removed at the end. It returns "" before the first start.
func (p *Process) Dir() string {
	if private := p.private.Load(); private != nil {
		return private.workDir()
	}
	return ""
}

// Status returns the status of the process.
func (p *Process) Status() Status {
	s := &p.published
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Memory, status.Draining = s.memory, len(s.draining)
	if in := s.servingLocked(); in != nil {
		status.Threads, status.Strict, status.SerialModels = in.conn.Threads(), in.acceptance.Strict(), in.acceptance.SerialModels()
	}
	for _, in := range s.draining {
		status.Threads += in.conn.Threads()
	}
	return status
}

func (p *Process) setStatus(next Status) {
	p.published.update(func() { p.published.setStatusLocked(next) })
	p.notifyObserver()
}

// runInSupervisor begins f in the supervisor's goroutine, unless the process is stopped.
func (p *Process) runInSupervisor(f func(*supervisor)) {
	select {
	case p.tasks <- f:
	case <-p.ctx.Done():
	}
}

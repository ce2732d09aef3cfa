package appserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// instance is one app-server in use: a child of this program, or a connection to a
// remote one.
type instance struct {
	program    *Program      // the program of a child; nil: remote
	exited     chan struct{} // closed when the program has exited
	exitState  string        // how the program exited; valid after exited was closed
	terminated atomic.Bool   // endChild has terminated the program
	stderr     stderrLog
	copier     sync.WaitGroup // the goroutine that copies the program's stderr to stderr
	home       *privateHome   // of a child that was started by Config.Command, else nil
	login      LoginFile      // the version of the login when the child was started
	startDone  chan struct{}  // closed when the start has ended, with success or not

	// The result of the start, valid after startDone was closed.
	conn    *codexrpc.Conn // nil: a remote app-server could not be dialled
	version string
	models  *catalogue // the catalogue; nil: there is none
	err     error      // why the instance cannot be used; nil: it can

	// Used only by the supervisor.
	servingSince time.Time // when the instance began to serve
	accountKnown bool      // the account was learnt before the instance began to serve
	learning     bool      // learnAccount was started
	memoryWarned bool      // warnOnce has logged a warning; false again when the memory is within the limit
	wasSmall     bool      // its memory has been at most half of Config.MaxMemory at some time
}

// pid returns the process id of a child, or 0.
func (in *instance) pid() int {
	if in.program == nil {
		return 0
	}
	return in.program.PID
}

// stop ends an instance whose start has succeeded or failed. For a child, it ends the program and
// everything that the program has started. For a remote app-server, it interrupts the unfinished
// turns and closes the connection.
func (in *instance) stop(timeout time.Duration) error {
	switch {
	case in.program != nil:
		if errors.Is(in.conn.Err(), codexrpc.ErrUnresponsive) {
			timeout = 0 // it may be suspended, and then reacts only to a kill
		}
		if err := in.endChild(timeout/2, timeout/2); err != nil {
			return err
		}
		return in.home.remove()
	case in.conn != nil:
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if in.conn.Err() == nil {
			in.conn.InterruptAll(ctx, in.conn.Unfinished())
		}
		_ = in.conn.Close() // the peer may have left before
	}
	return nil
}

// withExitDetails wraps reason with the exit status of a child and the last lines of its stderr. It
// returns the errors in selfExplanatory unchanged. It leaves out a status that explains nothing,
// see exitStatus.
func (in *instance) withExitDetails(reason error) error {
	if matchesAny(reason, selfExplanatory) {
		return reason
	}
	if status := in.exitStatus(); status != "" {
		reason = fmt.Errorf("%w (%s)", reason, status)
	}
	if tail := in.stderr.tail(); tail != "" {
		reason = fmt.Errorf("%w; stderr: %s", reason, tail)
	}
	return reason
}

// launch begins the start of an instance. When it returns, the programs of a child have been
// started. The rest of the start happens in the background, until startDone is closed. The error
// says what an operator can do.
func (p *Process) launch() (*instance, error) {
	in := &instance{startDone: make(chan struct{}), exited: make(chan struct{}), stderr: stderrLog{starting: true}}
	run, err := p.startChild(in)
	if err != nil {
		return nil, err
	}
	go func() {
		timeout := p.cfg.StartTimeout
		ctx, cancel := context.WithTimeoutCause(p.ctx, timeout,
			fmt.Errorf("it did not answer within the start timeout of %s: %w", timeout, codexrpc.ErrTimeout))
		in.err = p.handshake(ctx, in)
		if in.err != nil && run != nil {
			run.cancel()
		}
		cancel()
		if err := p.readCatalogue(in, run); in.err == nil {
			in.err = err
		}
		close(in.startDone)
		p.reportStartAndFailure(in)
	}()
	return in, nil
}

// startChild starts the programs of an instance that is a child: the app-server and, unless
// Config.Start is set, the run that prints the catalogue (the list of models). That run has its own
// timeout, so it may end after the handshake. For a remote app-server, startChild does nothing.
func (p *Process) startChild(in *instance) (run *catalogueRun, err error) {
	if p.cfg.Connect != "" {
		return nil, nil
	}
	env, err := p.prepareChild(in)
	if err != nil {
		return nil, err
	}
	program, err := p.cfg.startProgram(p.Dir(), env)
	if err != nil {
		_ = in.home.remove() // if this fails, the home is removed later, with the private directory
		return nil, err
	}
	in.attachProgram(program, p.log)
	if p.cfg.Start != nil {
		return nil, nil
	}
	if run, err = p.cfg.startCatalogue(p.ctx, p.Dir(), env, p.cfg.StartTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoCatalogue, err), in.endChild(0, 0), in.home.remove())
	}
	return run, nil
}

// reportStartAndFailure runs handleStart in the supervisor. If the start succeeded, it then waits
// for the end of the connection, and runs handleFailure.
func (p *Process) reportStartAndFailure(in *instance) {
	p.runInSupervisor(func(s *supervisor) { s.handleStart(in) })
	if in.err == nil {
		<-in.conn.Done()
		p.runInSupervisor(func(s *supervisor) { s.handleFailure(in) })
	}
}

// handshake initializes the connection of an instance. For a remote app-server, it connects first.
func (p *Process) handshake(ctx context.Context, in *instance) error {
	if in.program == nil {
		socket, err := codexrpc.DialWebSocket(ctx, p.cfg.Connect, p.cfg.Token)
		if err != nil {
			return err
		}
		in.conn = codexrpc.NewConn(socket, p.log)
	}
	var err error
	in.version, err = in.conn.Initialize(ctx, p.cfg.Client)
	if err == nil || errors.Is(err, errStopped) {
		return err
	}
	return p.explainStartError(in, err)
}

// readCatalogue waits for the catalogue (the list of models) and stores it in the instance. It
// returns an error if Codex prints none: without a catalogue, Codex would offer its own tools to
// the models.
func (p *Process) readCatalogue(in *instance, run *catalogueRun) error {
	if run == nil {
		return nil // the app-server runs elsewhere, or is not started by a command
	}
	printed, err := run.wait()
	if err == nil {
		in.models, err = newCatalogue(printed, in.home, p.log)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCatalogue, err)
	}
	if err := checkCatalogueSupport(in.version); err != nil && in.err == nil {
		p.log().Warn("models may be offered tools of codex's own", "error", err)
	}
	return nil
}

const (
	// maxUnfinished bounds the number of threads in unfinishedTurns.
	maxUnfinished = 1024
	// interruptTimeout bounds the time for interrupting all unfinishedTurns. Interrupting one turn
	// takes a few milliseconds.
	interruptTimeout = 30 * time.Second
)

// unfinishedTurns are the threads whose turns still ran on a remote app-server when the connection
// was lost. They are interrupted over the next connection: otherwise they would use up the plan,
// and a turn that waits for the result of a tool would never end.
type unfinishedTurns struct {
	mu      sync.Mutex
	threads []string
}

// add records the threads with unfinished turns of a remote instance whose connection was lost. It
// ignores a child: when a child ends, its turns end too.
func (u *unfinishedTurns) add(in *instance) {
	if in.program != nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := in.conn.Unfinished()
	u.threads = append(u.threads, ids[:min(len(ids), maxUnfinished-len(u.threads))]...)
}

// removeAll removes and returns all threads.
func (u *unfinishedTurns) removeAll() (threads []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	threads, u.threads = u.threads, nil
	return threads
}

// interruptUnfinished interrupts the turns in s.unfinished, in the background, over the connection
// of the serving instance. If no instance serves, it does nothing.
func (s *supervisor) interruptUnfinished() {
	if s.serving == nil {
		return
	}
	ids := s.unfinished.removeAll()
	if len(ids) == 0 {
		return
	}
	conn := s.serving.conn
	s.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), interruptTimeout)
		defer cancel()
		conn.InterruptAll(ctx, ids)
	})
}

package appserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// pipeGrace is how long a process outside the child's group may keep the pipes
	// open after the child's exit.
	pipeGrace = time.Second
	// killGrace is how long a killed process may take to exit.
	killGrace = 5 * time.Second
)

// Instance is what turns need of one app-server. A turn keeps its Instance even if another app-server takes
// over, since the other one may have other models and settings. All methods are safe for concurrent use.
type Instance struct {
	conn       *codexrpc.Conn
	models     *catalogue       // the catalogue; nil: there is none; valid after the start
	settings   providerSettings // valid since the instance began to serve
	list       modelList
	acceptance Acceptance
	wait       atomic.Pointer[askedWait] // the last wait that the provider has asked for; nil: none
}

// Conn returns the connection to the app-server.
func (in *Instance) Conn() *codexrpc.Conn { return in.conn }

// instance is one app-server in use: a child of this program or, with Config.Start, a part of it.
type instance struct {
	Instance
	program    *Program
	exited     chan struct{} // closed when the program has exited
	exitState  string        // how the program exited; valid after exited was closed
	terminated atomic.Bool   // endChild has terminated the program
	stderr     stderrLog
	copier     sync.WaitGroup // the goroutine that copies the program's stderr to stderr
	home       *privateHome   // nil with Config.Start
	login      LoginFile      // the version of the login when the program was started
	file       os.FileInfo    // of the program when it was started; nil: not known
	startDone  chan struct{}  // closed when the start has ended, with success or not

	// The result of the start, valid after startDone was closed.
	version string
	err     error // why the instance cannot be used; nil: it can

	servingSince time.Time // when the instance began to serve

	// What is known of the account of the login. learnAccount sends the requests for the account. Only the
	// supervisor changes these fields, and holds publishedStatus.mu for that while the instance serves.
	accountKnown   bool                // a request has succeeded
	accountFailure *codexrpc.TurnError // of the last request; nil: none has failed, or the account is known

	// Used only by the supervisor.
	learning     bool // learnAccount was started
	memoryWarned bool // checkMemory has logged a warning; false again when the memory is within the limit
	wasSmall     bool // the memory has been at most half of Config.MaxMemory at some time
}

func (in *instance) pid() int { return in.program.PID }

// withExitDetails adds the exit status and the last lines of stderr to a reason that does not explain itself.
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

// launch starts the programs of an instance. The rest of the start happens in the background. When the
// start ends, with success or not, startDone is closed and the supervisor calls handleStart. After a
// success, it calls handleFailure when the connection has ended. The error says what an operator can do.
func (p *Process) launch() (*instance, error) {
	in := &instance{startDone: make(chan struct{}), exited: make(chan struct{}), stderr: stderrLog{starting: true}}
	run, err := p.startChild(in)
	if err != nil {
		return nil, err
	}
	go func() {
		timeout := p.cfg.startTimeout
		ctx, cancel := context.WithTimeoutCause(p.ctx, timeout,
			fmt.Errorf("it did not answer within the start timeout of %s: %w", timeout, codexrpc.ErrTimeout))
		var err error
		if in.version, err = in.conn.Initialize(ctx, p.cfg.Client); err == nil {
			err = in.conn.CheckLogin(ctx)
		}
		if in.err = p.explainStartError(in, err); in.err != nil && run != nil {
			run.cancel()
		}
		cancel()
		// Even after a failed handshake, readCatalogue must wait for the end of the run.
		if err := p.readCatalogue(in, run); in.err == nil {
			in.err = err
		}
		close(in.startDone)
		p.runInSupervisor(func(s *supervisor) { s.handleStart(in) })
		if in.err == nil {
			<-in.conn.Done()
			p.runInSupervisor(func(s *supervisor) { s.handleFailure(in) })
		}
	}()
	return in, nil
}

// startChild starts the app-server and, without Config.Start, the run that prints the catalogue, which may end
// after the handshake.
func (p *Process) startChild(in *instance) (run *catalogueRun, err error) {
	env, err := p.prepareChild(in)
	if err != nil {
		return nil, err
	}
	in.file = p.cfg.programFile()
	program, err := p.cfg.startProgram(p.Dir(), env)
	if err != nil {
		_ = in.home.remove() // if this fails, the home is removed later, with the private directory
		return nil, err
	}
	in.attachProgram(program, p.Log)
	if p.cfg.Start != nil {
		return nil, nil
	}
	if run, err = p.cfg.startCatalogue(p.ctx, p.Dir(), env, p.cfg.startTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoCatalogue, err), in.endChild(0, 0), in.home.remove())
	}
	return run, nil
}

// readCatalogue waits until run has printed the catalogue, and stores it in the instance. A failure ends
// the start of the instance: without a catalogue, Codex would offer its own tools to the models.
func (p *Process) readCatalogue(in *instance, run *catalogueRun) error {
	if run == nil { // the app-server is not started by a command
		if p.cfg.Models != nil {
			in.models = &catalogue{models: p.cfg.Models}
		}
		return nil
	}
	printed, err := run.wait()
	if err == nil {
		in.models, err = newCatalogue(printed, in.home, p.Log)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCatalogue, err)
	}
	return nil
}

// attachProgram connects to a program. In the background, it also logs the program's stderr and
// waits for the program's exit.
func (in *instance) attachProgram(program *Program, logger func() *slog.Logger) {
	in.program = program
	in.conn = codexrpc.NewConn(codexrpc.NewStdio(program.Stdout, program.Stdin), codexrpc.Options{Logger: logger})
	in.acceptance.conn = in.conn
	in.copier.Go(func() {
		in.stderr.copy(program.Stderr, logger, func(line string) bool { return in.handleLogLine(line, in.conn.FailBeginning) })
		_ = program.Stderr.Close()
	})
	go in.awaitExit()
}

// awaitExit waits for the program's exit, then kills its process group: a launcher (such as npm's) may have
// a child that lives on and keeps the pipes open. A process outside the group may keep them open, too. So
// the connection ends pipeGrace after the exit, and the reading of stderr after another pipeGrace.
func (in *instance) awaitExit() {
	defer close(in.exited)
	in.exitState = in.program.Wait()
	in.program.Kill()
	grace := time.AfterFunc(pipeGrace, func() { in.conn.Fail(errors.New("the app-server exited")) })
	defer grace.Stop()
	<-in.conn.Done()
	if r, ok := in.program.Stderr.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = r.SetReadDeadline(time.Now().Add(pipeGrace))
	}
}

const succeeded = "exit status 0"

// exitStatus returns how a child exited, or that it has not exited. It returns "" if the child exited
// without an error, or after endChild has terminated it.
func (in *instance) exitStatus() string {
	select {
	case <-in.exited:
		if in.terminated.Load() || in.exitState == succeeded {
			return ""
		}
		return in.exitState
	default:
		return "it has not exited"
	}
}

// endChild closes the stdin of a child, which asks the child to exit. If the child still runs after
// closeTimeout, endChild terminates the child, and kills it after a further terminateTimeout. When endChild
// returns nil, the child has exited, and the goroutines of attachProgram have ended.
func (in *instance) endChild(closeTimeout, terminateTimeout time.Duration) error {
	_ = in.conn.Close() // closes stdin
	if !in.exitsWithin(closeTimeout) {
		in.terminated.Store(true)
		in.program.Terminate()
		if !in.exitsWithin(terminateTimeout) {
			in.program.Kill()
			if !in.exitsWithin(killGrace) {
				return fmt.Errorf("the process lives %s after it was killed", killGrace)
			}
		}
	}
	in.copier.Wait()
	return nil
}

func (in *instance) exitsWithin(d time.Duration) bool {
	select {
	case <-in.exited:
		return true
	case <-time.After(d):
		return false
	}
}

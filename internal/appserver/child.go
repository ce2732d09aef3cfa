package appserver

import (
	"errors"
	"fmt"
	"log/slog"
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

// attachProgram connects to a program. In the background, it also logs the program's stderr and
// waits for the program's exit.
func (in *instance) attachProgram(program *Program, logger func() *slog.Logger) {
	in.program = program
	in.conn = codexrpc.NewConn(codexrpc.NewStdio(program.Stdout, program.Stdin), codexrpc.Options{Logger: logger})
	in.acceptance.conn = in.conn
	in.copier.Go(func() {
		in.stderr.copy(program.Stderr, logger, in.handleLogLine)
		_ = program.Stderr.Close()
	})
	go in.awaitExit()
}

// awaitExit waits for the program's exit, and then kills its process group: the program may be a
// launcher (such as npm's) whose child lives on and keeps the pipes open. A process outside of the
// group may still keep them open. So awaitExit ends the connection after pipeGrace, and the reading
// of stderr after another pipeGrace.
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

// succeeded is the exit status of a program that reports no error.
const succeeded = "exit status 0"

// exitStatus returns how a child exited, or that it has not exited. It returns "" if the child exited
// without an error, or if endChild terminated the child.
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
// closeTimeout, endChild terminates it. If the child still runs after a further terminateTimeout,
// endChild kills it. When endChild returns nil, the child has exited and its goroutines have ended.
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

// exitsWithin waits up to d for the exit, and reports whether the child has exited.
func (in *instance) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-in.exited:
		return true
	case <-timer.C:
		return false
	}
}

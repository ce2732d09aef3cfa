package appserver

import (
	"errors"
	"fmt"
	"log/slog"
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

// child is a started program with the connection to it.
type child struct {
	program *Program
	conn    *codexrpc.Conn
	stderr  *stderrLog
	exited  chan struct{} // closed when the program has exited
	status  string        // how it exited; valid once exited is closed
	ended   atomic.Bool   // it had to be terminated by stop
	copier  sync.WaitGroup
}

// newChild connects to a program and waits for its exit in the background.
func newChild(program *Program, logger func() *slog.Logger) *child {
	c := &child{program: program, stderr: &stderrLog{holding: true}, exited: make(chan struct{})}
	c.conn = codexrpc.NewConn(codexrpc.NewStdio(program.Stdout, program.Stdin), logger)
	c.copier.Go(func() {
		c.stderr.copy(program.Stderr, logger)
		_ = program.Stderr.Close()
	})
	go c.wait()
	return c
}

// wait waits for the exit. Then it kills the process group: the program may be a
// launcher, as npm's is, whose child may live on and keep the pipes open. A process outside
// of the group that does so is not waited for long.
func (c *child) wait() {
	defer close(c.exited)
	c.status = c.program.Wait()
	c.program.Kill()
	grace := time.AfterFunc(pipeGrace, func() { c.conn.Fail(errors.New("the app-server exited")) })
	defer grace.Stop()
	<-c.conn.Done()
	if r, ok := c.program.Stderr.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = r.SetReadDeadline(time.Now().Add(pipeGrace))
	}
}

// succeeded is the exit status of a program that reports no error.
const succeeded = "exit status 0"

// exitStatus returns how the child exited, or "" if that explains nothing: it was
// stopped here, or reports no error.
func (c *child) exitStatus() string {
	select {
	case <-c.exited:
		if c.ended.Load() || c.status == succeeded {
			return ""
		}
		return c.status
	default:
		return "it has not exited"
	}
}

// stop closes the child's stdin, which asks it to end, terminates it after toClose,
// and kills it after another toTerminate. When it returns nil the child has exited
// and its goroutines have ended.
func (c *child) stop(toClose, toTerminate time.Duration) error {
	_ = c.conn.Close() // closes stdin
	if !c.exitsWithin(toClose) {
		c.ended.Store(true)
		c.program.Terminate()
		if !c.exitsWithin(toTerminate) {
			c.program.Kill()
			if !c.exitsWithin(killGrace) {
				return fmt.Errorf("the process lives %s after it was killed", killGrace)
			}
		}
	}
	c.copier.Wait()
	return nil
}

// exitsWithin waits for the exit, for d at most.
func (c *child) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

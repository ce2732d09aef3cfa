package appserver

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// stderrGrace is how long a process outside the child's group may hold its
	// stderr open after the child's exit.
	stderrGrace = time.Second
	// killGrace is how long a killed process may take to be gone. One that the
	// operating system does not let go of cannot be ended from here.
	killGrace = 5 * time.Second
)

// child is one run of the app-server's program: the process that was started
// and all that it has started itself.
type child struct {
	program *Program
	conn    *codexrpc.Conn
	stderr  *stderrLog
	exited  chan struct{} // closed when the started process has been waited for
	state   string        // how it exited; valid once exited is closed
	copier  sync.WaitGroup
}

// spawn forks the program and connects to it. It does not wait for an answer.
func spawn(cfg *Config, dir string, env []string, logger func() *slog.Logger) (*child, error) {
	program, err := cfg.start(dir, env)
	if err != nil {
		return nil, err
	}
	c := &child{program: program, stderr: &stderrLog{}, exited: make(chan struct{})}
	c.conn = codexrpc.NewConn(codexrpc.NewStdio(program.Stdout, program.Stdin), logger)
	c.copier.Go(func() {
		c.stderr.copy(program.Stderr, logger)
		_ = program.Stderr.Close()
	})
	go c.wait()
	return c, nil
}

func (c *child) pid() int { return c.program.PID }

// wait reaps the started process. What that one has started itself may live
// on and hold the pipes (the program from npm is a launcher): the group is
// ended with its leader.
func (c *child) wait() {
	defer close(c.exited)
	c.state = c.program.Wait()
	c.program.Kill()
	expireRead(c.program.Stderr, stderrGrace)
}

// exit says how the child exited.
func (c *child) exit() string {
	select {
	case <-c.exited:
		return c.state
	default:
		return "it has not exited"
	}
}

// stop ends the child: its stdin is closed, which asks it to end; after
// toClose it is told to, and after another toTerminate it is killed. The
// process is gone and its goroutines have ended when there is no error.
func (c *child) stop(toClose, toTerminate time.Duration) error {
	// Closing the connection closes stdin. Its reader ends with it.
	_ = c.conn.Close()
	if !c.gone(toClose) {
		c.program.Terminate()
		if !c.gone(toTerminate) {
			c.program.Kill()
			if !c.gone(killGrace) {
				return fmt.Errorf("the process lives %s after it was killed", killGrace)
			}
		}
	}
	c.copier.Wait()
	return nil
}

// gone waits for the exit, at most for d.
func (c *child) gone(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

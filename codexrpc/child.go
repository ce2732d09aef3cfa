package codexrpc

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"
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
	cmd    *exec.Cmd
	conn   *Conn
	stderr *stderrLog
	exited chan struct{} // closed when the started process has been waited for
	state  string        // how it exited; valid once exited is closed
	copier sync.WaitGroup
}

// spawn forks the program and connects to it. It does not wait for an answer.
func spawn(cfg *ProcessConfig, dir string, logger func() *slog.Logger) (*child, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = dir
	cmd.Env = cfg.environ()
	ownGroup(cmd)
	var pipes pipeSet
	stdin, toChild := pipes.make()
	fromChild, stdout := pipes.make()
	fromStderr, stderr := pipes.make()
	if pipes.err != nil {
		pipes.closeAll()
		return nil, fmt.Errorf("making pipes: %w", pipes.err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	if err := cmd.Start(); err != nil {
		pipes.closeAll()
		return nil, err
	}
	// The child has its own copies; ours would keep the pipes from ending.
	for _, f := range []*os.File{stdin, stdout, stderr} {
		_ = f.Close()
	}
	c := &child{cmd: cmd, stderr: &stderrLog{}, exited: make(chan struct{})}
	c.conn = newConn(NewStdio(fromChild, toChild), cfg.zone(), logger)
	c.copier.Go(func() {
		c.stderr.copy(fromStderr, logger)
		_ = fromStderr.Close()
	})
	go c.wait(fromStderr)
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// wait reaps the started process. What that one has started itself may live
// on and hold the pipes (the program from npm is a launcher): the group is
// ended with its leader.
func (c *child) wait(stderr *os.File) {
	defer close(c.exited)
	err := c.cmd.Wait()
	c.state = c.cmd.ProcessState.String()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		c.state = err.Error()
	}
	killGroup(c.cmd)
	// Where there are no deadlines, the pipe's own end is waited for.
	_ = stderr.SetReadDeadline(time.Now().Add(stderrGrace))
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
		terminateGroup(c.cmd)
		if !c.gone(toTerminate) {
			killGroup(c.cmd)
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

// pipeSet makes pipes and remembers them until they are handed on.
type pipeSet struct {
	files []*os.File
	err   error
}

func (p *pipeSet) make() (r, w *os.File) {
	if p.err != nil {
		return nil, nil
	}
	r, w, p.err = os.Pipe()
	if p.err == nil {
		p.files = append(p.files, r, w)
	}
	return r, w
}

func (p *pipeSet) closeAll() {
	for _, f := range p.files {
		_ = f.Close()
	}
}

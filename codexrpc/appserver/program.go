package appserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Program is an app-server that has been started: a process with all that it
// has started itself, or one that runs within this process, see
// [Config].Start.
type Program struct {
	// Stdin is what it reads, Stdout and Stderr are what it writes. A write to
	// Stdin that must not wait for ever needs a SetWriteDeadline.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser
	PID            int
	// Wait waits until it has exited and says how. It is called once.
	Wait func() string
	// Terminate asks it to end, Kill ends it, also after its exit what is left of
	// it. Neither waits.
	Terminate, Kill func()
}

// start starts the program of the configuration in a directory and with an
// environment.
func (cfg *Config) start(dir string, env []string) (*Program, error) {
	if cfg.Start != nil {
		return cfg.Start()
	}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Dir = dir
	cmd.Env = env
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
	return &Program{
		Stdin: toChild, Stdout: fromChild, Stderr: fromStderr, PID: cmd.Process.Pid,
		Wait:      func() string { return waitFor(cmd) },
		Terminate: func() { terminateGroup(cmd) },
		Kill:      func() { killGroup(cmd) },
	}, nil
}

// waitFor reaps a process and says how it exited.
func waitFor(cmd *exec.Cmd) string {
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err.Error()
	}
	return cmd.ProcessState.String()
}

// expireRead makes the reads of r fail after d. Where there are no deadlines,
// the end of r is waited for.
func expireRead(r io.Reader, d time.Duration) {
	if deadline, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = deadline.SetReadDeadline(time.Now().Add(d))
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

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Caddy is a Caddy process.
type Caddy struct {
	// PID is its process id.
	PID int

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has exited
	err    error         // error of the exit; set before exited is closed
}

// Start starts a Caddy program with a Caddyfile, logs to log, and adds env. Call Stop to end it.
func Start(program, caddyfile string, log io.Writer, env ...string) (*Caddy, error) {
	cmd := exec.Command(program, "run", "--adapter", "caddyfile", "--config", "-")
	cmd.Stdin = strings.NewReader(caddyfile)
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Caddy: %w", err)
	}
	c := &Caddy{PID: cmd.Process.Pid, cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(c.exited)
		c.err = cmd.Wait()
	}()
	return c, nil
}

// Exited returns a channel that is closed when Caddy has exited.
func (c *Caddy) Exited() <-chan struct{} { return c.exited }

// Stop terminates Caddy and waits for its exit. It kills Caddy after limit. The error
// is that of the exit, or says that Caddy was killed.
func (c *Caddy) Stop(limit time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails if it has exited
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.exited:
		return c.err
	case <-timer.C:
	}
	_ = c.cmd.Process.Kill()
	<-c.exited
	return fmt.Errorf("Caddy did not end within %s", limit)
}

// readyWait bounds the start of Caddy and codex.
const readyWait = 30 * time.Second

// WaitReady waits until /readyz of a site answers 200. It returns an error after readyWait.
func WaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("codex did not become ready")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Caddy is a running Caddy.
type Caddy struct {
	// PID is its process id.
	PID int

	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // how it ended; set before exited is closed
}

// Start starts the Caddy program with a Caddyfile. Its log goes to log, and env
// is added to this process's environment. End it with Stop.
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

// Exited is closed when Caddy has ended, by itself or not.
func (c *Caddy) Exited() <-chan struct{} { return c.exited }

// Stop asks Caddy to end and waits for it, but not longer than limit: it is killed
// then. The error says that it was, or that Caddy did not end well.
func (c *Caddy) Stop(limit time.Duration) error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is waited for as well
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

// FreeAddr returns an address of this machine on which nobody listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	addr := l.Addr().String()
	return addr, l.Close()
}

// readyWait bounds the start of Caddy and of codex.
const readyWait = 30 * time.Second

// WaitReady waits until a site takes turns. Its error says if it does not.
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

package codexrpc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

const reasonStopped = "it was stopped"

// errStopped says that somebody has called Stop.
var errStopped = errors.New(reasonStopped)

// supervise runs one child after another until the process is stopped.
func (p *Process) supervise(c *child, err error) {
	defer close(p.done)
	defer p.removeDir()
	for {
		reason := err
		if err == nil {
			reason = p.run(c)
		}
		if errors.Is(reason, errStopped) || !p.pause(reason) {
			p.become(Status{State: StateStopped, Reason: reasonStopped})
			return
		}
		p.become(Status{State: StateStarting})
		c, err = p.spawn()
	}
}

// spawn starts a child. Its error says what an operator can do about it.
func (p *Process) spawn() (*child, error) {
	c, err := spawn(&p.cfg, p.Dir(), p.log)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("cannot start %q: %w; install it with `npm install -g @openai/codex`, or set the command to its path", p.cfg.Command[0], err)
	case err != nil:
		return nil, fmt.Errorf("cannot start %q: %w; check the command and the working directory", p.cfg.Command[0], err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.PID = c.pid()
	return c, nil
}

// run shakes hands with a child and waits for its end. It returns why it
// ended, or errStopped; the child is gone then.
func (p *Process) run(c *child) error {
	version, err := p.handshake(c)
	if err == nil {
		p.makeCatalogue()
		p.ready(c, version)
		p.log().Info("the codex app-server is ready", "version", version, "pid", c.pid())
		start := time.Now()
		err = p.watch(c)
		p.failures.lasted(time.Since(start))
	}
	p.become(Status{State: StateStopping, Reason: err.Error(), PID: c.pid(), Version: version})
	if left := c.stop(p.cfg.StopTimeout/2, p.cfg.StopTimeout/2); left != nil {
		p.log().Error("stopping the codex app-server", "error", left, "pid", c.pid())
	}
	if errors.Is(err, errStopped) {
		return err
	}
	if tail := c.stderr.tail(); tail != "" {
		return fmt.Errorf("%w (%s); its last words: %s", err, c.exit(), tail)
	}
	return fmt.Errorf("%w (%s)", err, c.exit())
}

// handshake initializes the connection within the start timeout.
func (p *Process) handshake(c *child) (version string, err error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), p.cfg.StartTimeout,
		fmt.Errorf("it did not answer within the start timeout of %s: %w", p.cfg.StartTimeout, ErrTimeout))
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	answered, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.stop:
			abort(errStopped)
		case <-c.exited:
			abort(errors.New("it exited"))
		case <-answered:
		}
	}()
	version, err = c.conn.Initialize(ctx, p.cfg.Client)
	close(answered)
	<-watched
	abort(nil)
	if err == nil || errors.Is(err, ErrNotLoggedIn) || errors.Is(err, errStopped) {
		return version, err
	}
	return version, fmt.Errorf("the codex app-server failed to start: %w", err)
}

// makeCatalogue makes the catalogue before the first turn can want it. A start
// does not fail with it: the tools of Codex's own that are offered then have no
// host to work on.
func (p *Process) makeCatalogue() {
	if p.private == "" {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	made := make(chan struct{})
	defer close(made)
	go func() {
		select {
		case <-p.stop:
			cancel(errStopped)
		case <-made:
		}
	}()
	models, err := p.cfg.writeCatalogue(ctx, filepath.Join(p.private, "models.json"))
	if err != nil {
		// What is left of the last file is of no use: the release may be another.
		p.log().Warn("models may be offered tools of codex's own", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.models = models
}

// watch waits for a ready child's end, or for the order to stop it.
func (p *Process) watch(c *child) error {
	select {
	case <-p.stop:
		return errStopped
	case <-c.exited:
		return errors.New("the codex app-server exited")
	case <-c.conn.Done():
		return c.conn.Err()
	}
}

// pause waits before the next start. It reports false when stopped meanwhile.
func (p *Process) pause(reason error) bool {
	d := p.failures.next()
	p.become(Status{State: StateBackoff, Reason: reason.Error(), RetryAt: time.Now().Add(d)})
	p.log().Error("the codex app-server is not running", "reason", reason.Error(), "next_start_in", d.Round(time.Millisecond).String())
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.stop:
		return false
	}
}

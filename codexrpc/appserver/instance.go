package appserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// instance is one app-server in use, from its fork or its dial to its end: a
// child of ours, or a connection to one that runs elsewhere.
type instance struct {
	child *child        // nil: it runs elsewhere
	home  *privateHome  // of a program that is run by its command, else nil
	begun chan struct{} // closed when the start has ended, well or not

	// What came of the start, valid once begun is closed.
	conn    *codexrpc.Conn // nil: nobody could be dialled
	version string
	models  catalogue
	err     error // why it cannot be used

	// The supervisor's own.
	since  time.Time // it serves
	warned bool      // about its memory
	roomy  bool      // it has used half of the memory that it may, or less
}

// pid is the process id of a child, else 0.
func (in *instance) pid() int {
	if in.child == nil {
		return 0
	}
	return in.child.pid()
}

// exited is closed when a child has exited; it is nil for a remote one.
func (in *instance) exited() <-chan struct{} {
	if in.child == nil {
		return nil
	}
	return in.child.exited
}

// stop ends an instance whose start has ended: the child with all that it has
// started, or the connection.
func (in *instance) stop(timeout time.Duration) error {
	switch {
	case in.child != nil && errors.Is(in.conn.Err(), codexrpc.ErrUnresponsive):
		return in.child.stop(0, 0) // it reacts to nothing else
	case in.child != nil:
		if err := in.child.stop(timeout/2, timeout/2); err != nil {
			return err
		}
		return in.home.remove()
	case in.conn != nil:
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if in.conn.Err() == nil {
			in.conn.InterruptAll(ctx, in.conn.Unfinished())
		}
		_ = in.conn.Close() // the peer may be gone already
	}
	return nil
}

// epitaph adds to the reason of its end what a child has left behind.
func (in *instance) epitaph(reason error) error {
	if in.child == nil {
		return reason
	}
	if tail := in.child.stderr.tail(); tail != "" {
		return fmt.Errorf("%w (%s); its last words: %s", reason, in.child.exit(), tail)
	}
	return fmt.Errorf("%w (%s)", reason, in.child.exit())
}

// launch starts an instance. For a child the forks are over when it returns;
// the rest goes on in the background, until the instance has begun. Its error
// says what an operator can do about it.
func (p *Process) launch() (*instance, error) {
	in := &instance{begun: make(chan struct{})}
	var printing *catalogueRun
	if p.cfg.Connect == "" {
		env, err := p.prepare(in)
		if err != nil {
			return nil, err
		}
		c, err := p.spawn(env)
		if err != nil {
			_ = in.home.remove() // else it goes with the private directory
			return nil, err
		}
		in.child, in.conn = c, c.conn
		if p.cfg.Start == nil {
			if printing, err = p.cfg.startCatalogue(p.Dir(), env, catalogueTimeout); err != nil {
				p.warnNoCatalogue(err)
			}
		}
	}
	go p.begin(in, printing)
	return in, nil
}

// spawn forks the program.
func (p *Process) spawn(env []string) (*child, error) {
	c, err := spawn(&p.cfg, p.Dir(), env, p.log)
	switch {
	case err != nil && p.cfg.Start != nil:
		return nil, fmt.Errorf("cannot start the app-server: %w", err)
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("cannot start %q: %w; install it with `npm install -g @openai/codex`, or set the command to its path", p.cfg.Command[0], err)
	case err != nil:
		return nil, fmt.Errorf("cannot start %q: %w; check the command and the working directory", p.cfg.Command[0], err)
	}
	return c, nil
}

// begin gets an instance ready: it is dialled, if it is a remote one, shaken
// hands with, and its catalogue written.
func (p *Process) begin(in *instance, printing *catalogueRun) {
	defer close(in.begun)
	ctx, cancel := p.startContext(in)
	defer cancel()
	in.err = p.handshake(ctx, in)
	if printing == nil {
		return
	}
	if in.err != nil {
		printing.abort(in.err)
	}
	in.models = p.readCatalogue(ctx, in, printing)
}

// startContext ends with the start timeout, with the process, or with a child
// that exits.
func (p *Process) startContext(in *instance) (context.Context, context.CancelFunc) {
	timed, cancel := context.WithTimeoutCause(context.Background(), p.cfg.StartTimeout,
		fmt.Errorf("it did not answer within the start timeout of %s: %w", p.cfg.StartTimeout, codexrpc.ErrTimeout))
	ctx, abort := context.WithCancelCause(timed)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.stop:
			abort(errStopped)
		case <-in.exited():
			abort(errors.New("it exited"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		abort(nil)
		<-watched
		cancel()
	}
}

// handshake connects and initializes.
func (p *Process) handshake(ctx context.Context, in *instance) error {
	if in.child == nil {
		socket, err := codexrpc.DialWebSocket(ctx, p.cfg.Connect, p.cfg.Token)
		if err != nil {
			return err
		}
		in.conn = codexrpc.NewConn(socket, p.log)
	}
	var err error
	in.version, err = in.conn.Initialize(ctx, p.cfg.Client)
	switch {
	case err == nil, errors.Is(err, errStopped):
		return err
	case errors.Is(err, codexrpc.ErrNotLoggedIn) && in.child == nil:
		return fmt.Errorf("at %s: %w", p.address, err)
	case errors.Is(err, codexrpc.ErrNotLoggedIn) && in.home != nil:
		return in.home.notLoggedIn()
	case errors.Is(err, codexrpc.ErrNotLoggedIn):
		return err
	}
	return fmt.Errorf("the codex app-server failed to start: %w", err)
}

// readCatalogue waits for the catalogue: no turn is to be without it. A start
// does not fail with it: the tools of Codex's own that are offered then have no
// host to work on.
func (p *Process) readCatalogue(ctx context.Context, in *instance, printing *catalogueRun) catalogue {
	unwatch := context.AfterFunc(ctx, func() { printing.abort(context.Cause(ctx)) })
	defer unwatch()
	printed, err := printing.wait()
	if err == nil {
		var models catalogue
		if models, err = writeCatalogue(printed, in.home.path); err == nil {
			return models
		}
	}
	if in.err == nil {
		p.warnNoCatalogue(err)
	}
	return catalogue{}
}

func (p *Process) warnNoCatalogue(err error) {
	p.log().Warn("models may be offered tools of codex's own", "error", err)
}

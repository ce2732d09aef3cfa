package appserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// signInTime is how long a person has to enter the code, with the start of the sign-in. Codex
	// asks the issuer for as long.
	signInTime = 15 * time.Minute
	// codeTime bounds the wait for the code, for which Codex itself has no bound.
	codeTime = 20 * time.Second
)

// The ends of a sign-in that are not Codex's.
var (
	errCodeExpired = errors.New("nobody has entered the code in time; begin again")
	errNoCode      = errors.New("the issuer of the login does not answer; check the network and HTTPS_PROXY, and begin again")
)

// SignIn makes a new login for the app-server by a code that a person enters in a browser. It
// calls show with the code, and returns once the login is in the operator's home, or has not come
// about. The error is for the operator: it may have paths, and words of the issuer.
//
// It needs no app-server that runs, since one without a login does not. It starts one that does
// nothing else, and says nothing in the log.
func (p *Process) SignIn(ctx context.Context, show func(code codexrpc.DeviceCode, expires time.Time)) (err error) {
	if p.cfg.Connect != "" || p.cfg.Start != nil {
		return errors.New("the app-server runs elsewhere; run `codex login` there")
	}
	expires := time.Now().Add(signInTime)
	ctx, end := context.WithDeadlineCause(ctx, expires, errCodeExpired)
	defer end()
	private, err := newPrivateDir()
	if err != nil {
		return err
	}
	in, err := p.startSigningIn(private)
	if err != nil {
		return errors.Join(err, private.remove())
	}
	defer func() {
		err = errors.Join(err, in.end(p.cfg.StopTimeout/2, p.cfg.StopTimeout/2), private.remove())
	}()
	starting, started := context.WithTimeoutCause(ctx, p.cfg.StartTimeout+codeTime, errNoCode)
	defer started()
	if _, err := in.conn.Initialize(starting, p.cfg.Client); err != nil && !errors.Is(err, codexrpc.ErrNotLoggedIn) {
		return err
	}
	code, err := in.conn.StartSignIn(starting)
	if err != nil {
		return err
	}
	show(code, expires)
	return in.conn.AwaitSignIn(ctx)
}

// startSigningIn starts an app-server whose login is that of the operator's home.
func (p *Process) startSigningIn(private *privateDir) (*instance, error) {
	operator, err := p.cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	if operator == "" {
		return nil, errors.New("the user of this server has no home directory; set home")
	}
	if err := os.MkdirAll(operator, 0o700); err != nil {
		return nil, fmt.Errorf("making the CODEX_HOME: %w", err)
	}
	in := &instance{exited: make(chan struct{})}
	if in.home, err = p.cfg.newPrivateHome(private.path, p.withLog.Load()); err != nil {
		return nil, err
	}
	if in.home.config.inKeyring() {
		return nil, in.home.notLoggedIn()
	}
	program, err := p.cfg.startProgram(private.work(), p.cfg.environ(in.home, private.temp()))
	if err != nil {
		return nil, err
	}
	silent := slog.New(slog.DiscardHandler)
	in.run(program, func() *slog.Logger { return silent })
	return in, nil
}

package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/status"
)

// ErrSigningIn means that a sign-in of the login is under way.
var ErrSigningIn = errors.New("a sign-in of this login is under way already; enter its code, or cancel it")

// The reasons why a sign-in was stopped. errCancelled: somebody cancelled it, or Caddy exits.
// errDropped: a reload has changed or removed the app_server of the login.
var (
	errCancelled = errors.New("it was cancelled")
	errDropped   = errors.New("a reload has changed or removed its app_server; begin again")
)

// signIn is the sign-in of a login: the one that is under way, or else the last one.
type signIn struct {
	mu        sync.Mutex
	state     *status.SignIn          // nil: there was none
	cancel    context.CancelCauseFunc // ends the sign-in with a reason; nil: there was none
	codeKnown chan struct{}           // closed once the code is known, or the sign-in has ended
	closed    bool                    // no other sign-in may begin
	running   backgroundTasks
}

func (s *signIn) status() *status.SignIn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return nil
	}
	state := *s.state
	return &state
}

// begin begins a sign-in: it calls run in the background, and run calls show when the code is known.
// begin fails if another sign-in is under way, or if s is closed.
func (s *signIn) begin(run func(ctx context.Context, show func(codexrpc.DeviceCode, time.Time)) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errCancelled
	case s.state != nil && s.state.UnderWay():
		return ErrSigningIn
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	codeKnown := make(chan struct{})
	closeCodeKnown := sync.OnceFunc(func() { close(codeKnown) })
	s.state, s.cancel, s.codeKnown = &status.SignIn{State: status.SignInStarting}, cancel, codeKnown
	s.running.Go(func() {
		defer cancel(nil)
		defer closeCodeKnown() // if there was no code
		err := run(ctx, func(code codexrpc.DeviceCode, expires time.Time) {
			s.setState(status.SignIn{State: status.SignInWaiting, URL: code.URL, Code: code.Code, ExpiresAt: expires.UTC()})
			closeCodeKnown()
		})
		switch cause := context.Cause(ctx); {
		case err == nil:
			s.setState(status.SignIn{State: status.SignInDone})
		case cause != nil:
			s.setState(status.SignIn{State: status.SignInFailed, Reason: cause.Error()})
		default:
			s.setState(status.SignIn{State: status.SignInFailed, Reason: err.Error()})
		}
	})
	return nil
}

func (s *signIn) setState(state status.SignIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = &state
}

// stop ends the sign-in under way, if there is one, for this reason, and waits for its end. If
// forGood is true, no other sign-in can begin afterwards.
func (s *signIn) stop(reason error, forGood bool) {
	s.mu.Lock()
	s.closed = s.closed || forGood
	if s.cancel != nil {
		s.cancel(reason)
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *signIn) awaitCode(ctx context.Context) {
	s.mu.Lock()
	codeKnown := s.codeKnown
	s.mu.Unlock()
	select {
	case <-codeKnown:
	case <-ctx.Done():
	}
}

// SignIn begins a sign-in of the login of the process: a person has to enter a code in a browser.
// SignIn returns the status of the sign-in when the code is known, the sign-in has ended, or ctx
// ends. The end of ctx does not end the sign-in; [Process.CancelSignIn] does. If another sign-in is
// under way, the error is [ErrSigningIn]. After a successful sign-in, all processes of the login
// are restarted, and turns use the login again.
func (p *Process) SignIn(ctx context.Context) (*status.SignIn, error) {
	l := p.login
	all := l.processes()
	release, err := l.supervisor.claimHome(p)
	if err != nil {
		return nil, err
	}
	err = l.signIn.begin(func(ctx context.Context, show func(codexrpc.DeviceCode, time.Time)) error {
		defer release()
		before := make(map[*Process]appserver.LoginFiles)
		for _, one := range all {
			before[one] = one.LoginFiles()
		}
		p.Log().Info("somebody signs the login of the codex app-server in", "app_server", p.id)
		err := p.Process.SignIn(ctx, show)
		if err != nil && errors.Is(context.Cause(ctx), errDropped) {
			p.supervisor.reportDropped(p)
			return err
		}
		if err != nil { // err is not logged: it may have text of the issuer
			p.Log().Warn("the sign-in of the codex app-server has failed or was cancelled", "app_server", p.id)
			return err
		}
		p.Log().Info("the login of the codex app-server was signed in", "app_server", p.id)
		l.filesBeforeSignIn.Store(&before)
		l.checkSoon()
		return nil
	})
	if err != nil {
		release()
		return nil, err
	}
	l.signIn.awaitCode(ctx)
	return l.signIn.status(), nil
}

// claimHome reserves the CODEX_HOME of a process for one sign-in, until release is called. Several logins
// may have the same CODEX_HOME. If another sign-in has reserved the home, the error is [ErrSigningIn].
func (s *Supervisor) claimHome(p *Process) (release func(), err error) {
	home, err := p.creator.cfg.OperatorHome()
	if err != nil {
		return nil, err
	}
	if _, taken := s.claimedHomes.LoadOrStore(home, nil); taken {
		return nil, ErrSigningIn
	}
	return sync.OnceFunc(func() { s.claimedHomes.Delete(home) }), nil
}

// CancelSignIn ends the sign-in under way, if there is one. It returns the status of the last sign-in; nil:
// there was none.
func (p *Process) CancelSignIn() *status.SignIn {
	p.login.signIn.stop(errCancelled, false)
	return p.login.signIn.status()
}

// reportDropped logs that a reload has dropped the sign-in of a process. Other logins may have the same
// CODEX_HOME after the reload: each of them without a sign-in gets the status of a failed sign-in.
func (s *Supervisor) reportDropped(p *Process) {
	if c := s.Newest(); c != nil { // the log of p's configuration may be closed
		c.logger.Warn("the sign-in of the codex app-server was dropped", "app_server", p.id, "reason", errDropped.Error())
	}
	home := p.operatorHome()
	for _, other := range s.All() {
		if home != "" && other.login != p.login && other.operatorHome() == home {
			other.login.signIn.setDropped()
		}
	}
}

func (s *signIn) setDropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		s.state = &status.SignIn{State: status.SignInFailed, Reason: errDropped.Error()}
	}
}

func (p *Process) operatorHome() string {
	home, _ := p.creator.cfg.OperatorHome()
	return home
}

// spendTimeout bounds the wait for the provider when a reset credit is spent.
const spendTimeout = 15 * time.Second

// SpendResetCredit spends a credit of the login to reset the windows of its plan. Turns then use the login
// again. key identifies the attempt, see [codexrpc.Conn.SpendResetCredit]. The attempt outlives ctx.
func (p *Process) SpendResetCredit(ctx context.Context, key string) (codexrpc.ResetOutcome, error) {
	ctx = context.WithoutCancel(ctx)
	conn := p.Serving()
	if conn == nil {
		return "", errors.New("the app-server is not ready")
	}
	spending, cancel := context.WithTimeout(ctx, spendTimeout)
	defer cancel()
	outcome, err := conn.SpendResetCredit(spending, key)
	if err != nil { // err is not logged: it may have addresses of the provider
		p.Log().Warn("a reset credit of the login was to be spent, and that has failed", "app_server", p.id)
		return "", err
	}
	p.Log().Info("a reset credit of the login was to be spent", "app_server", p.id, "outcome", string(outcome))
	done := outcome == codexrpc.ResetDone || outcome == codexrpc.ResetDoneSince
	if done {
		p.login.Recover(loginstate.Spent) // first, so that turns do not wait for the limits
	}
	reading, end := context.WithTimeout(ctx, statusTimeout)
	defer end()
	p.RateLimits(reading, 0)
	if done {
		p.login.thresholds.Forget() // only now: the old limits would be reported again
	}
	return outcome, nil
}

package appserver

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// accountTime bounds one question for the account. Codex asks the back end three times,
	// for five seconds each.
	accountTime = 20 * time.Second
	// The pauses between two questions that have failed: the first, and the longest.
	accountPause, maxAccountPause = time.Second, 30 * time.Second
)

// signInAgain is in what Codex says of a login whose refresh token the provider refuses for
// good.
const signInAgain = "sign in again"

// accountWait is how long a turn waits for the account. Codex itself would wait up to half a
// minute for a back end that does not answer.
const accountWait = 3 * time.Second

// accountState is what is known of the account of the serving instance.
type accountState struct {
	conn   *codexrpc.Conn // that is asked
	asked  time.Time      // first
	known  bool           // the back end has answered
	silent bool           // it did not answer the last question
}

// AwaitAccount waits for the account of a login with a plan, for accountWait. It returns the connection
// to ask: conn, or that of an app-server which has replaced it meanwhile. It fails with a
// *NotReadyError if the back end does not answer, and with ctx. If the back end fails in any
// other way the turn is tried: then Codex asks again and says so at once.
func (p *Process) AwaitAccount(ctx context.Context, conn *codexrpc.Conn) (*codexrpc.Conn, error) {
	for conn.HasPlan() {
		p.mu.Lock()
		account, said, changed, serving := p.account, p.status.Account, p.changed, p.conn
		p.mu.Unlock()
		left := time.Until(account.asked.Add(accountWait))
		switch {
		case serving != nil && serving != conn:
			conn = serving
			continue
		case account.conn != conn || account.known || said != "" && !account.silent:
			return conn, nil
		case account.silent || left <= 0:
			return nil, &NotReadyError{
				State: StateStarting, Reason: "the account back end does not answer", RetryAfter: accountPause,
				Remedy: "the back end of its login does not answer; it is asked again",
			}
		}
		select {
		case <-changed:
		case <-time.After(left):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return conn, nil
}

// learnAccount asks for the account of a serving instance until the back end has answered, or
// its connection has ended. What is wrong is in the status.
func (p *Process) learnAccount(in *instance) {
	for pause := accountPause; ; {
		ctx, cancel := context.WithTimeout(context.Background(), accountTime)
		late := time.AfterFunc(accountWait, func() {
			p.do(func(s *supervisor) { s.noteAccount(in, errSilent) })
		})
		var probing sync.WaitGroup
		if p.relay != nil && in.conn.HasPlan() {
			probing.Go(func() { p.awaitAccountBackend(ctx, in) })
		}
		err := CheckAccount(ctx, in.conn)
		late.Stop()
		cancel()
		probing.Wait()
		if in.conn.Err() != nil {
			return
		}
		p.do(func(s *supervisor) { s.noteAccount(in, err) })
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-in.conn.Done():
			return
		}
		if pause = min(2*pause, maxAccountPause); errors.Is(err, errSilent) {
			pause = accountPause // the question itself has taken long
		}
	}
}

// noteAccount publishes what is wrong with the account of the serving instance, and logs the
// first failure and the end of it.
func (s *supervisor) noteAccount(in *instance, err error) {
	if in != s.serving || in.conn.Err() != nil || s.account.known {
		return
	}
	s.update(func() { s.account.known, s.account.silent = err == nil, errors.Is(err, errSilent) })
	before := s.Status().Account
	account := ""
	if err != nil {
		account = err.Error()
	}
	if before == account {
		return
	}
	switch {
	case before == "":
		s.log().Warn("the account of codex's login is not known; turns are tried nevertheless", "reason", account, "pid", in.pid())
	case account == "":
		s.log().Info("the account of codex's login is known", "pid", in.pid())
	}
	s.mu.Lock()
	s.status.Account, s.status.Refused, s.status.Silent = account, errors.Is(err, errRefused), errors.Is(err, errSilent)
	s.signal()
	s.mu.Unlock()
	s.observe()
}

// errSilent is the error of an account back end without an answer.
var errSilent = errors.New("the account back end does not answer")

// errRefused is matched by the error of a login that the provider refuses for good.
var errRefused = errors.New("the provider refuses the login; run `codex login`")

// CheckAccount asks the back end for the account of the login. Its error says in words for
// everybody what is wrong with the back end or the login, without its addresses. A provider
// that needs no login has no account, and nothing is wrong with it.
func CheckAccount(ctx context.Context, conn *codexrpc.Conn) error {
	account, err := conn.Account(ctx)
	refused, ok := errors.AsType[*codexrpc.CallError](err)
	switch {
	case err == nil && account.LoggedIn():
		return nil
	case err == nil:
		return errors.New("the login could not be renewed at the back end; it is tried again with the next request")
	case ok && strings.Contains(refused.Message, signInAgain):
		return errRefused
	case !ok, strings.Contains(refused.Message, "timed out"):
		return errSilent
	}
	return backendError(ctx, conn, refused.Message)
}

// statusInMessage finds the HTTP status in what Codex says of a failed request to the back end.
var statusInMessage = regexp.MustCompile(`failed: (\d{3} [A-Z][A-Za-z ]+)`)

// backendError says what is wrong with the back end. Codex does not say how the back end has
// answered for the account, but it does for the use of the plan.
func backendError(ctx context.Context, conn *codexrpc.Conn, message string) error {
	var refused *codexrpc.CallError
	if _, err := conn.RateLimits(ctx); errors.As(err, &refused) {
		if status := statusInMessage.FindStringSubmatch(refused.Message); status != nil {
			return fmt.Errorf("the account back end answers %s", status[1])
		}
		if strings.Contains(refused.Message, "error sending request") || strings.Contains(refused.Message, "timed out") {
			return errors.New("the account back end cannot be reached; check the network and HTTPS_PROXY")
		}
	}
	return fmt.Errorf("the account back end does not tell the account: codex says %q", message)
}

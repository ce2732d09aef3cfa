package appserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver/issuer"
)

const (
	// accountTimeout bounds one request to Codex for the account of the login. For each request,
	// Codex asks the back end three times, and waits up to five seconds each time.
	accountTimeout = 20 * time.Second
	// accountPause is the pause after the first failed request for the account. Each further
	// failure doubles the pause up to maxAccountPause, but a request without an answer resets the
	// pause.
	accountPause, maxAccountPause = time.Second, 30 * time.Second
)

// signInAgain is a part of Codex's error message about a login whose refresh token the provider has
// permanently refused.
const signInAgain = "sign in again"

// maxAccountWait is how long a turn waits at most for the account. Codex itself would wait up to
// half a minute for a back end that does not answer.
const maxAccountWait = 3 * time.Second

// accountState is what is known of the account of the serving instance's login. learnAccount sends
// the requests for it.
type accountState struct {
	conn   *codexrpc.Conn // the connection over which the requests are sent
	asked  time.Time      // when the instance began to serve; the first request is sent then
	known  bool           // a request has succeeded
	silent bool           // the back end has not answered the last request in time
}

// AwaitAccount waits up to maxAccountWait for the account of a login with a plan (a ChatGPT login).
// For other logins it does not wait. It returns the connection for the turn: conn or, if another
// instance serves by now, the connection of that instance.
//
// The error is a *NotReadyError if the back end does not answer, and the cause of ctx if ctx ends.
// If the back end fails in another way, AwaitAccount returns no error: Codex asks again in the
// turn, and reports the failure immediately.
func (p *Process) AwaitAccount(ctx context.Context, conn *codexrpc.Conn) (*codexrpc.Conn, error) {
	for conn.HasPlan() {
		p.published.mu.Lock()
		account, failure, changed, serving := p.published.account, p.published.status.Account, p.published.changed, p.published.conn
		p.published.mu.Unlock()
		left := time.Until(account.asked.Add(maxAccountWait))
		switch {
		case serving != nil && serving != conn:
			conn = serving
			continue
		case account.conn != conn || account.known || failure != "" && !account.silent:
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

// learnAccount asks Codex for the account of a serving instance until a request succeeds or the
// instance's connection has ended. It publishes each result. If a request has no result after
// maxAccountWait, learnAccount publishes errSilent, and the result later.
func (p *Process) learnAccount(in *instance) {
	for pause := accountPause; ; {
		ctx, cancel := context.WithTimeout(context.Background(), accountTimeout)
		silenceTimer := time.AfterFunc(maxAccountWait, func() {
			p.runInSupervisor(func(s *supervisor) { s.publishAccount(in, errSilent) })
		})
		var probing sync.WaitGroup
		if relay := p.files.currentRelay(); relay != nil && in.conn.HasPlan() {
			probing.Go(func() { p.awaitAccountBackend(ctx, relay, in) })
		}
		err := CheckAccount(ctx, in.conn)
		silenceTimer.Stop()
		cancel()
		probing.Wait()
		if in.conn.Err() != nil {
			return
		}
		p.runInSupervisor(func(s *supervisor) { s.publishAccount(in, err) })
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-in.conn.Done():
			return
		}
		if pause = min(2*pause, maxAccountPause); errors.Is(err, errSilent) {
			pause = accountPause // the failed request has taken long already
		}
	}
}

// publishAccount publishes err, the result of a request for the account of an instance; nil means
// success. It does nothing if the instance no longer serves, or if the account is already known. It
// logs the first failure, each failure that changes whether [Process.AwaitAccount] refuses turns,
// and the success after a failure.
func (s *supervisor) publishAccount(in *instance, err error) {
	if in != s.serving || in.conn.Err() != nil || s.published.account.known {
		return
	}
	account, silent := &s.published.account, errors.Is(err, errSilent)
	s.published.update(func() { account.known, account.silent = err == nil, silent })
	before, failure := s.Status(), ""
	if err != nil {
		failure = err.Error()
	}
	if before.Account == failure {
		return
	}
	s.published.update(func() {
		status := &s.published.status
		status.Account, status.Refused, status.Silent = failure, errors.Is(err, errRefused), silent
	})
	hasPlan := in.conn.HasPlan()
	switch {
	case failure == "":
		s.log().Info("the account of codex's login is known", "pid", in.pid())
	case before.Account != "" && (before.Silent == silent || !hasPlan):
	case silent && hasPlan:
		s.log().Warn("the account of codex's login is not known; turns are refused until it is", "reason", failure, "pid", in.pid())
	default:
		s.log().Warn("the account of codex's login is not known; turns are tried nevertheless", "reason", failure, "pid", in.pid())
	}
	s.notifyObserver()
}

// errSilent means that the account back end has not answered in time.
var errSilent = errors.New("the account back end does not answer")

// errRefused means that the provider has permanently refused the login.
var errRefused = errors.New("the provider refuses the login; run `codex login`")

// CheckAccount makes Codex ask the back end for the account of the login. It returns nil if Codex
// gets the account, or if the provider needs no login. Otherwise the error says what is wrong with
// the back end or the login. It may quote Codex, with paths and addresses, which clients must not
// see.
func CheckAccount(ctx context.Context, conn *codexrpc.Conn) error {
	account, err := conn.Account(ctx)
	callErr, ok := errors.AsType[*codexrpc.CallError](err)
	switch {
	case err == nil && account.LoggedIn():
		return nil
	case err == nil:
		return errors.New("the login could not be renewed at the back end; it is tried again with the next request")
	case ok && strings.Contains(callErr.Message, signInAgain):
		return errRefused
	case !ok, strings.Contains(callErr.Message, "timed out"):
		return errSilent
	}
	return backendError(ctx, conn, callErr.Message)
}

// statusInMessage matches Codex's message about a failed request to the back end. It captures the
// HTTP status.
var statusInMessage = regexp.MustCompile(`failed: (\d{3} [A-Z][A-Za-z ]+)`)

// backendError returns an error that says what is wrong with the back end. message is Codex's error
// about the account, which does not say how the back end has answered. So backendError also makes
// Codex ask the back end for the limits of the plan: Codex's error for that request says how the
// back end has answered.
func backendError(ctx context.Context, conn *codexrpc.Conn, message string) error {
	var callErr *codexrpc.CallError
	if _, err := conn.RateLimits(ctx); errors.As(err, &callErr) {
		if status := statusInMessage.FindStringSubmatch(callErr.Message); status != nil {
			return fmt.Errorf("the account back end answers %s", status[1])
		}
		if strings.Contains(callErr.Message, "error sending request") || strings.Contains(callErr.Message, "timed out") {
			return errors.New("the account back end cannot be reached; check the network and HTTPS_PROXY")
		}
	}
	return fmt.Errorf("the account back end does not tell the account: codex says %q", message)
}

const (
	// backendPollPause is the pause between two checks whether a silent account back end answers
	// again. backendPollTimeout bounds a check. Both are short: requests should be served within
	// two seconds after the back end answers again, and half a second of that is the start of a new
	// app-server.
	backendPollPause, backendPollTimeout = 300 * time.Millisecond, 700 * time.Millisecond
	// accountHost is the default address of the account back end, and accountPath is the path for
	// the account.
	accountHost = "https://chatgpt.com/backend-api"
	accountPath = "/wham/accounts/check"
)

// awaitAccountBackend asks the account back end directly, while Codex waits for the answer to its
// own request. ctx ends when Codex's request has ended. If the back end gives two answers in a row
// before that, Codex's request is lost, and Codex would repeat it only after five seconds. In that
// case, awaitAccountBackend replaces the instance.
func (p *Process) awaitAccountBackend(ctx context.Context, relay *issuer.Relay, in *instance) {
	client, err := relay.Client()
	if err != nil {
		return // Codex reports the same error
	}
	defer client.CloseIdleConnections()
	for answers := 0; answers < 2; { // two in a row: after only one, Codex may be about to get its own answer
		select {
		case <-time.After(backendPollPause):
		case <-ctx.Done():
			return
		}
		if answers++; !p.accountAnswers(ctx, client, in) {
			answers = 0
		}
	}
	p.runInSupervisor(func(s *supervisor) {
		if in == s.serving && ctx.Err() == nil {
			s.replaceForHealth("the account back end answers again, and not to its question", true)
		}
	})
}

// accountAnswers reports whether the back end returns the account of the instance's login within
// backendPollTimeout. It returns false without asking if it cannot read the login, or if the base
// URL does not end with /backend-api.
func (p *Process) accountAnswers(ctx context.Context, client *http.Client, in *instance) bool {
	login, err := readLogin(in.home.operatorHome)
	base := strings.TrimSuffix(in.home.config.ChatGPTBaseURL, "/")
	if base == "" {
		base = accountHost
	}
	if err != nil || !strings.HasSuffix(base, "/backend-api") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, backendPollTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+accountPath, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+login.Access)
	request.Header.Set("Chatgpt-Account-Id", login.Account)
	request.Header.Set("User-Agent", p.cfg.Client.Name+"/"+p.cfg.Client.Version)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // the status is enough
	return response.StatusCode == http.StatusOK
}

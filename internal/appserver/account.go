package appserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// accountTimeout bounds one request to Codex for the account of the login. For each request,
	// Codex asks the back end three times, and waits up to five seconds each time.
	accountTimeout = 20 * time.Second
	// accountPause is the pause after the first failed request. Each further failure doubles the pause, up
	// to maxAccountPause. After a request without an answer, the pause is accountPause again.
	accountPause, maxAccountPause = time.Second, 30 * time.Second
)

// signInAgain is in Codex's error if the provider has permanently refused the refresh token.
const signInAgain = "sign in again"

// maxAccountWait is how long a turn waits at most for the account. Codex itself would wait up to
// half a minute for a back end that does not answer.
const maxAccountWait = 3 * time.Second

// AwaitAccount waits up to maxAccountWait for the account of a login with a plan (a ChatGPT login), and not
// for other logins. It returns the instance for the turn: in, or the one that serves by now.
//
// The error is the cause of ctx if ctx ends. It is a *NotReadyError if the back end does not answer or
// refuses the login, even if only because the issuer cannot renew the login now. After any other failure
// there is no error: Codex asks again in the turn, and reports the failure immediately.
func (p *Process) AwaitAccount(ctx context.Context, in *Instance) (*Instance, error) {
	for in.conn.HasPlan() {
		p.published.mu.Lock()
		latest, changed, serving := p.published.latest, p.published.changed, p.published.servingLocked()
		known, failure := latest.accountKnown, latest.accountFailure
		p.published.mu.Unlock()
		left := time.Until(latest.servingSince.Add(maxAccountWait))
		switch {
		case serving != nil && &serving.Instance != in:
			in = &serving.Instance
			continue
		case &latest.Instance != in || known || failure != nil && !refusesTurns(failure):
			return in, nil // the turn itself finds out what is wrong, if anything
		case failure == errRefused:
			return nil, &NotReadyError{State: StateReady, Reason: errRefused.Message, SignedOut: true}
		case failure != nil || left <= 0:
			failure, remedy := cmp.Or(failure, errSilent), "the provider does not answer; it is asked again"
			if failure == errUnauthorized {
				remedy = "its login cannot be renewed now; that is tried again"
			}
			return nil, &NotReadyError{State: StateStarting, Reason: failure.Message, RetryAfter: accountPause, Remedy: remedy}
		}
		select {
		case <-changed:
		case <-time.After(left):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return in, nil
}

// learnAccount asks Codex for the account of an instance until a request succeeds or the instance's
// connection has ended. It publishes each result, but after a first refusal it asks once more before that.
// If a request has no result after maxAccountWait, learnAccount publishes errSilent, and the result later.
func (p *Process) learnAccount(in *instance) {
	refusals := 0 // how many results in a row were errUnauthorized
	for pause := accountPause; ; {
		ctx, cancel := context.WithTimeout(context.Background(), accountTimeout)
		silenceTimer := time.AfterFunc(maxAccountWait, func() {
			p.runInSupervisor(func(s *supervisor) { s.publishAccount(in, errSilent) })
		})
		var probing sync.WaitGroup
		if relay := p.relay.Load(); relay != nil && in.conn.HasPlan() {
			probing.Go(func() { p.awaitAccountBackend(ctx, relay, in) }) // replaces in if Codex waits in vain
		}
		err := p.askAccount(ctx, in.conn)
		silenceTimer.Stop()
		cancel()
		probing.Wait()
		if in.conn.Err() != nil {
			return
		}
		if refusals++; err != errUnauthorized {
			refusals = 0
		}
		if refusals > 1 {
			err = p.refusal()
		}
		if refusals == 1 {
			pause = accountPause // a first refusal is not published: Codex is asked once more
		} else {
			p.runInSupervisor(func(s *supervisor) { s.publishAccount(in, err) })
		}
		if err == nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-in.conn.Done():
			return
		}
		switch pause = min(2*pause, maxAccountPause); err {
		case errSilent:
			pause = accountPause // the failed request has taken long already
		case errUnauthorized:
			pause = min(pause, 5*accountPause) // turns are refused meanwhile
		}
	}
}

// publishAccount publishes err, the result of a request for the account of an instance; nil means
// success. If the instance is to replace the serving one, success makes it take over. Otherwise
// publishAccount does nothing if the instance does not serve, or if the account is already known. It
// logs the first failure, each failure that changes whether [Process.AwaitAccount] refuses turns, and
// the success after a failure.
func (s *supervisor) publishAccount(in *instance, err *codexrpc.TurnError) {
	if in.conn.Err() != nil {
		return
	}
	if in == s.next { // in is a replacement that waits for its account
		if err == nil {
			in.accountKnown, in.accountFailure = true, nil
			s.takeOver()
			return
		}
		if in.accountFailure == nil {
			s.Log().Warn("codex does not know its account yet, so the app-server before it goes on", "reason", err.Message, "pid", in.pid())
		}
		in.accountFailure = err
		s.published.update(func() { s.published.status.Account = "a new app-server waits for its account: " + err.Message })
		return
	}
	before := in.accountFailure
	if in != s.serving || in.accountKnown {
		return
	}
	hasPlan := in.conn.HasPlan()
	refuses := func(failure *codexrpc.TurnError) bool { return hasPlan && refusesTurns(failure) }
	s.published.update(func() {
		in.accountKnown, in.accountFailure = err == nil, err
		status := &s.published.status
		status.AccountKnown, status.Account, status.AccountFailure = err == nil && hasPlan, "", nil
		if err != nil {
			status.Account = err.Message
			if hasPlan {
				status.AccountFailure = err
			}
		}
	})
	switch {
	case err == nil && before == nil && !hasPlan:
		return // nothing has changed
	case err == nil && before == nil, err != nil && before != nil && refuses(err) == refuses(before):
		// no news for the log
	case err == nil:
		s.Log().Info("the account of codex's login is known", "pid", in.pid())
	case refuses(err):
		s.Log().Warn("the account of codex's login is not known; turns are refused until it is", "reason", err.Message, "pid", in.pid())
	default:
		s.Log().Warn("the account of codex's login is not known; turns are tried nevertheless", "reason", err.Message, "pid", in.pid())
	}
	s.notifyObserver()
}

// accountFailure returns the failure of a request for the account, with the code and the HTTP status
// that a turn would fail with for the same reason. The message is for the operator.
func accountFailure(status int, message string) *codexrpc.TurnError {
	return &codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: status, Message: message}
}

var (
	errSilent = accountFailure(0, "the account back end does not answer")
	// errUnauthorized means that the back end refuses the login, and that Codex could not renew the login
	// because its issuer has failed. Only askAccount returns errUnauthorized even if the issuer works.
	errUnauthorized = accountFailure(0, "the login could not be renewed at its issuer")
	// errRefused means that the provider has permanently refused the login.
	errRefused = &codexrpc.TurnError{Code: codexrpc.CodeUnauthorized, Message: "the provider refuses the login; run `caddy codex login`"}
)

// refusesTurns reports whether turns of a login with a plan are refused after this failure, since
// Codex would only find out the same, and slowly.
func refusesTurns(failure *codexrpc.TurnError) bool {
	return failure == errSilent || failure == errUnauthorized || failure == errRefused
}

// CheckAccount makes Codex ask the back end for the account. It returns nil if Codex gets the account, or
// if the provider needs no login. Otherwise the failure says what is wrong with the back end or the login.
// Its message may quote Codex, with paths and addresses, which clients must not see.
func (p *Process) CheckAccount(ctx context.Context, conn *codexrpc.Conn) *codexrpc.TurnError {
	failure := p.askAccount(ctx, conn)
	if failure != errUnauthorized {
		return failure
	}
	select { // errRefused is final, so Codex is asked twice before errRefused is returned
	case <-time.After(accountPause):
	case <-ctx.Done():
	}
	if failure = p.askAccount(ctx, conn); failure == errUnauthorized {
		failure = p.refusal()
	}
	return failure
}

// refusal returns the failure after two refusals of a login in a row: errUnauthorized if the issuer has failed
// to renew the login, which may still be good, else errRefused, which is final.
func (p *Process) refusal() *codexrpc.TurnError {
	if relay := p.relay.Load(); relay != nil && relay.fails.Load() {
		return errUnauthorized
	}
	return errRefused
}

// askAccount makes Codex ask the back end for the account once. It returns errUnauthorized if the back end
// refuses the login and Codex could not renew it, whether or not the issuer has failed.
func (p *Process) askAccount(ctx context.Context, conn *codexrpc.Conn) *codexrpc.TurnError {
	account, err := conn.Account(ctx)
	callErr, ok := errors.AsType[*codexrpc.CallError](err)
	switch {
	case err == nil && account.LoggedIn():
		return nil
	case err == nil, ok && strings.Contains(callErr.Message, "unauthorized (401)"):
		return errUnauthorized
	case ok && strings.Contains(callErr.Message, signInAgain):
		return errRefused
	case !ok, strings.Contains(callErr.Message, "timed out"):
		return errSilent
	}
	if failure := p.CheckBackend(ctx, conn); failure != nil {
		return failure
	}
	return &codexrpc.TurnError{Code: "other", Message: fmt.Sprintf("the account back end does not tell the account: codex says %q", callErr.Message)}
}

// statusInMessage captures the HTTP status in Codex's message about a failed request.
var statusInMessage = regexp.MustCompile(`failed: ((\d{3}) [A-Z][A-Za-z ]+)`)

// CheckBackend makes Codex ask the account back end for the limits of the plan. The result is nil if the
// back end answers, or if Codex does not say how the back end has answered.
func (p *Process) CheckBackend(ctx context.Context, conn *codexrpc.Conn) *codexrpc.TurnError {
	_, err := conn.RateLimits(ctx, p.cfg.LunaReserve)
	callErr, ok := errors.AsType[*codexrpc.CallError](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return errSilent
	}
	if found := statusInMessage.FindStringSubmatch(callErr.Message); found != nil {
		status, _ := strconv.Atoi(found[2]) // three digits
		return accountFailure(status, "the account back end answers "+found[1])
	}
	if !strings.Contains(callErr.Message, "error sending request") && !strings.Contains(callErr.Message, "timed out") {
		return nil
	}
	if untrusted := p.checkCertificate(ctx); untrusted != nil {
		return untrusted
	}
	return accountFailure(0, "the account back end cannot be reached; check the network and HTTPS_PROXY")
}

// checkCertificate connects to the account back end as Codex does. It returns an error only if the
// certificate is not trusted, which Codex itself does not say.
func (p *Process) checkCertificate(ctx context.Context) *codexrpc.TurnError {
	in, relay := p.published.latestInstance(), p.relay.Load()
	if relay == nil || in == nil {
		return nil // the app-server is not started by a command, or has not served yet
	}
	client, err := relay.issuer.Load().client()
	if err != nil {
		return nil // Codex reports the same error
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, maxAccountWait)
	defer cancel()
	_, err = in.askBackend(ctx, client, http.Header{}) // any answer will do
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return accountFailure(0, fmt.Sprintf("the account back end's %s: %v", codexrpc.UntrustedCertificate, untrusted.Err))
	}
	return nil
}

const (
	// backendPollPause is the pause between two checks whether a silent back end answers again, and
	// backendPollTimeout bounds each check. Both are short: requests should be served within two seconds
	// after the back end answers again, and half a second of that is the start of a new app-server.
	backendPollPause, backendPollTimeout = 300 * time.Millisecond, 700 * time.Millisecond
	// The default address of the account back end, and the path for the account.
	accountHost = "https://chatgpt.com/backend-api"
	accountPath = "/wham/accounts/check"
)

func (in *instance) backend() string {
	if in.home == nil {
		return ""
	}
	return cmp.Or(strings.TrimSuffix(in.home.config.ChatGPTBaseURL, "/"), accountHost)
}

// askBackend asks the back end for the account, as Codex does, and returns the answer's status.
func (in *instance) askBackend(ctx context.Context, client *http.Client, header http.Header) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, in.backend()+accountPath, nil)
	if err != nil {
		return 0, err
	}
	request.Header = header
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// awaitAccountBackend asks the back end directly, while Codex waits for the answer to its own request; ctx
// ends with that request. If the back end fails and then answers twice in a row, Codex's request is lost.
// Codex would repeat the request only after five seconds, so the instance is replaced. A back end that has
// not failed must answer for maxAccountWait, since on a busy machine Codex may only be slow.
func (p *Process) awaitAccountBackend(ctx context.Context, relay *tokenRelay, in *instance) {
	client, err := relay.issuer.Load().client()
	if err != nil {
		return // Codex reports the same error
	}
	defer client.CloseIdleConnections()
	needed, hasFailed := int(maxAccountWait/backendPollPause), false
	for answers := 0; answers < needed; {
		select {
		case <-time.After(backendPollPause):
		case <-ctx.Done():
			return
		}
		if answers++; !p.accountAnswers(ctx, client, in) {
			answers, needed, hasFailed = 0, 2, true // after only one answer, Codex may be about to get its own
		}
	}
	p.runInSupervisor(func(s *supervisor) {
		if in == s.serving && ctx.Err() == nil {
			s.replaceForHealth("the account back end answers again, and not to its question", hasFailed)
		}
	})
}

// accountAnswers reports whether the back end returns the account within backendPollTimeout. It returns
// false without asking if it cannot read the login, or if the base URL does not end with /backend-api.
func (p *Process) accountAnswers(ctx context.Context, client *http.Client, in *instance) bool {
	login, err := readLogin(in.home.operatorHome)
	if err != nil || !strings.HasSuffix(in.backend(), "/backend-api") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, backendPollTimeout)
	defer cancel()
	header := make(http.Header)
	header.Set("Authorization", "Bearer "+login.Access)
	header.Set("Chatgpt-Account-Id", login.Account)
	header.Set("User-Agent", p.cfg.Client.Name+"/"+p.cfg.Client.Version)
	status, err := in.askBackend(ctx, client, header)
	return err == nil && status == http.StatusOK
}

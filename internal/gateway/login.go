package gateway

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// LoginState is what is known of the login of an app-server.
type LoginState string

// The states of a login.
const (
	LoginUnknown LoginState = "unknown" // it was not used yet
	LoginFine    LoginState = "fine"    // the provider has answered
	LoginSpent   LoginState = "spent"   // its plan is spent
	LoginRefused LoginState = "refused" // the provider refuses it
)

const (
	// spentRest is the longest that a login with a spent plan rests until it is tried
	// again: a plan may be reset or enlarged before its time.
	spentRest = 5 * time.Minute
	// refusedRest is the same for a login that was refused: somebody may have logged in
	// again.
	refusedRest = time.Minute
)

// Login follows what the model's provider says to the login of an app-server. One that is
// spent or refused rests; then one turn tries it again. All methods are safe for
// concurrent use. The zero value is a login that was not used yet.
type Login struct {
	mu     sync.Mutex
	state  LoginState
	failed error     // the failure that it rests for
	resets time.Time // when its plan resets; zero: not known
	until  time.Time // it rests until then
	tried  bool      // a turn tries it again
}

// State returns the state, and for a spent login when its plan resets, as far as that is
// known.
func (l *Login) State() (state LoginState, resets time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == "" {
		return LoginUnknown, time.Time{}
	}
	return l.state, l.resets
}

// Rests reports whether the login is not to be used if there is another, and until when.
func (l *Login) Rests() (until time.Time, rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until, l.failed != nil && (l.tried || time.Now().Before(l.until))
}

// Failure returns why the login rests, or nil.
func (l *Login) Failure() error {
	if _, rests := l.Rests(); !rests {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Try begins a turn with the login. If it has rested, other turns leave it alone until
// done is called.
func (l *Login) Try() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil || l.tried {
		return func() {}
	}
	l.tried = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tried = false
	}
}

// worked records that the provider has answered.
func (l *Login) worked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.failed, l.resets, l.until, l.tried = LoginFine, nil, time.Time{}, time.Time{}, false
}

// fail records a failure. It reports whether the login is the cause, so that another may
// do better.
func (l *Login) fail(failure error) bool {
	refused, ok := errors.AsType[*codexrpc.TurnError](failure)
	if !ok {
		return false
	}
	rest := refusedRest
	state, resets := LoginRefused, time.Time{}
	switch {
	case refused.Code == "usageLimitExceeded":
		state, resets, rest = LoginSpent, refused.ResetsAt, spentRest
	case refused.Code == "unauthorized", refused.HTTPStatus == http.StatusUnauthorized:
	default:
		return false
	}
	until := time.Now().Add(rest)
	if !resets.IsZero() && resets.Before(until) {
		until = resets
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.failed, l.resets, l.until, l.tried = state, failure, resets, until, false
	return true
}

// Package loginstate follows the health of the logins of app-servers.
package loginstate

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
)

// State is what is known of the login of an app-server.
type State string

// The states of a login.
const (
	Unknown   State = "unknown"    // it was not used yet
	Fine      State = "fine"       // the provider has answered
	Spent     State = "spent"      // its plan allows no more use until it resets
	SignedOut State = "signed_out" // nobody is signed in, or the provider refuses the login
)

// States lists the states.
var States = []State{Unknown, Fine, Spent, SignedOut}

const (
	// spentRest is the longest time for which a login with a spent plan is not used. After that, a
	// turn tries the login again: the plan may have been reset early, or enlarged.
	spentRest = 5 * time.Minute
	// deniedRest is the shortest time for which a login is not used after Codex has said that the
	// login's plan allows no use yet.
	deniedRest = time.Minute
	// signedOutRest is how long a signed-out login is not used. After that, a turn tries the login
	// again: somebody may have signed in unnoticed.
	signedOutRest = time.Minute
	// minFalterRest and maxFalterRest are the first and the longest pause for a login whose
	// provider fails or limits the rate of requests. Each failure in a row doubles the pause. The
	// first pause may be short: if there is another login, a failed attempt delays a request by a
	// second at most.
	minFalterRest = time.Second
	maxFalterRest = time.Minute
)

// Login is the state of an app-server's login, learnt from what the model's provider answers. A
// login that has failed is not used for a while (it rests). After that, one turn tries it again.
// All methods are safe for concurrent use. The zero value is a login that was not used yet.
type Login struct {
	mu         sync.Mutex
	state      State
	failure    error     // why the login rests or last rested; nil after a success
	resetsAt   time.Time // when a spent plan resets; zero: not known
	restsUntil time.Time // until when the login is not used
	beingTried bool      // one turn is trying the login again
	// picturesFrom is when the login may be used for pictures again; zero: at any time.
	picturesFrom time.Time
	// failuresInRow counts the failures in a row that are not the login's fault: the provider
	// fails, or limits the rate of requests.
	failuresInRow int
	// silence is how long turns have waited in total for a sign of the model before they were given
	// up, see GiveUp. It is 0 again after an answer of the provider.
	silence  time.Duration
	onChange func() // called without the lock after each change of state or resetsAt; may be nil
}

// Status is the status of a login.
type Status struct {
	State      State
	Reason     error     // why it is spent or signed out; nil in other states
	ResetsAt   time.Time // when a spent plan resets; zero: not known
	RestsUntil time.Time // when it is tried again; zero: it does not rest
	Falters    bool      // it rests because the provider fails or limits the rate of requests
}

// OnChange sets a function that is called after each change of the state or of the plan's reset
// time. The function must be quick.
func (l *Login) OnChange(changed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = changed
}

// Status returns the status.
func (l *Login) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := Status{State: cmp.Or(l.state, Unknown), ResetsAt: l.resetsAt}
	if l.state == Spent || l.state == SignedOut {
		status.Reason, status.RestsUntil = l.failure, l.restsUntil
	} else if l.isResting() {
		status.Falters, status.RestsUntil = true, l.restsUntil
	}
	return status
}

// Rests reports whether the login rests (is not used) now, and until when. Meanwhile, other logins
// have to be used. If the login rests because a turn tries it, the time may have passed.
func (l *Login) Rests() (until time.Time, rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restsUntil, l.isResting()
}

func (l *Login) isResting() bool {
	return l.failure != nil && (l.beingTried || time.Now().Before(l.restsUntil))
}

// Failure returns why the login rests, or nil.
func (l *Login) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isResting() {
		return nil
	}
	return l.failure
}

// Try is called before a turn. If the login has failed and no turn is trying it, this turn tries
// it. For other turns, the login then rests until done is called or the turn's result is recorded.
// If this turn does not try the login, done is nil.
func (l *Login) Try() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil || l.beingTried {
		return nil
	}
	l.beingTried = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.beingTried = false
	}
}

// update calls f with the lock held. If f has changed the state or the plan's reset time, update
// then calls l.onChange, without the lock.
func (l *Login) update(f func()) {
	l.mu.Lock()
	state, resets := l.state, l.resetsAt
	f()
	onChange := l.onChange
	if l.state == state && l.resetsAt.Equal(resets) {
		onChange = nil
	}
	l.mu.Unlock()
	if onChange != nil {
		onChange()
	}
}

// Falter records a failure that another login may not have: the provider limits the rate of this
// login, is down, or cannot be reached. The login then rests (is not used) for retryAfter, the time
// that the provider asks for. If retryAfter is 0, the rest is minFalterRest, doubled for each
// earlier failure in a row. The rest is at most maxFalterRest, and does not shorten an earlier
// rest. A login that is spent or signed out keeps that state.
func (l *Login) Falter(failure error, retryAfter time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := min(cmp.Or(retryAfter, minFalterRest<<min(l.failuresInRow, 6)), maxFalterRest)
	l.failuresInRow++
	if l.state != Spent && l.state != SignedOut {
		l.failure = failure
	}
	if until := time.Now().Add(rest); until.After(l.restsUntil) {
		l.restsUntil = until
	}
	l.beingTried = false
}

// GiveUp records that a turn was given up after it had waited for a sign of the model. It adds
// waited, the length of that wait, to the earlier waits. When the sum reaches patience, GiveUp
// returns true and starts at zero again.
func (l *Login) GiveUp(waited, patience time.Duration) (silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence += waited
	if silent = l.silence >= patience; silent {
		l.silence = 0
	}
	return silent
}

// setState sets the state and the fields that depend on it, and ends a trial by a turn.
func (l *Login) setState(state State, failure error, resetsAt, restsUntil time.Time) {
	l.update(func() {
		l.state, l.failure, l.resetsAt, l.restsUntil, l.beingTried, l.failuresInRow, l.silence = state, failure, resetsAt, restsUntil, false, 0, 0
	})
}

// Worked records that the provider has answered.
func (l *Login) Worked() { l.setState(Fine, nil, time.Time{}, time.Time{}) }

// SignOut records that nobody is signed in.
func (l *Login) SignOut() {
	l.setState(SignedOut, codexrpc.ErrNotLoggedIn, time.Time{}, time.Now().Add(signedOutRest))
}

// SignIn records that an app-server was started with a new login, in place of a login that was
// refused or missing. One turn tries the new login before other turns use it. If a turn has already
// succeeded with it, the state is Fine and stays Fine.
func (l *Login) SignIn() {
	l.update(l.allowTrial)
}

// allowTrial lets one turn try a failed login now. It runs within update, which holds the lock.
func (l *Login) allowTrial() {
	if l.state != Fine {
		l.state = Unknown
	}
	l.resetsAt, l.restsUntil, l.beingTried = time.Time{}, time.Time{}, false
}

// Reset records that the windows of a plan were reset before their time. If the plan was spent, one
// turn tries the login, as after [Login.SignIn].
func (l *Login) Reset() {
	l.update(func() {
		if l.state == Spent {
			l.allowTrial()
		}
	})
}

// Recheck records what Codex says about a spent plan: whether it may be used, and when it resets.
// Recheck does nothing if the plan is not spent, or if Codex does not say whether it may be used.
func (l *Login) Recheck(limits codexrpc.RateLimits) {
	l.update(func() {
		if l.state != Spent || limits.Allowed == nil {
			return
		}
		now := time.Now()
		if at, ok := limits.RetryAt(now); ok {
			l.resetsAt = at
		}
		switch {
		case *limits.Allowed:
			l.restsUntil = now // one turn tries it
		case l.resetsAt.Before(now.Add(spentRest)):
			l.restsUntil = now.Add(deniedRest)
		default:
			l.restsUntil = now.Add(spentRest)
		}
	})
}

// Fail records a failure if the login has caused it, see [IsOfLogin]. It ignores other failures.
func (l *Login) Fail(failure error) {
	now := time.Now()
	turnErr, _ := errors.AsType[*codexrpc.TurnError](failure)
	switch {
	case !IsOfLogin(failure):
	case turnErr.Code == codexrpc.CodeUsageLimit:
		until := now.Add(spentRest)
		if !turnErr.ResetsAt.IsZero() && turnErr.ResetsAt.Before(until) {
			until = turnErr.ResetsAt
		}
		l.setState(Spent, failure, turnErr.ResetsAt, until)
	default:
		l.setState(SignedOut, failure, time.Time{}, now.Add(signedOutRest))
	}
}

// IsOfLogin reports whether a turn has failed because of its login: the plan is spent, or the
// provider refuses the login.
func IsOfLogin(failure error) bool {
	e, ok := errors.AsType[*codexrpc.TurnError](failure)
	return ok && (e.Code == codexrpc.CodeUsageLimit || e.Code == codexrpc.CodeUnauthorized || e.HTTPStatus == http.StatusUnauthorized)
}

// MoreHopeful compares two failures, and returns the failure that is likely to end sooner, see
// hopeOf. If both are spent plans, it returns the plan that resets earlier; a time that is not known
// counts as the latest. In all other cases it returns the first.
func MoreHopeful(one, other error) error {
	first, second := hopeOf(one), hopeOf(other)
	if second < first || first == hopeReset && second == hopeReset && resetsBefore(other, one) {
		return other
	}
	return one
}

// The kinds of failures. The lower one is likely to end sooner.
const (
	hopeStart   = iota // the process of an app-server will start again
	hopeSeconds        // the provider fails, or limits the rate of requests
	hopeReset          // the plan is spent
	hopeNone           // the operator must mend the login, or the login cannot do what the turn needs
)

// hopeOf returns the kind of a failure.
func hopeOf(failure error) int {
	if _, notReady := errors.AsType[*appserver.NotReadyError](failure); notReady {
		return hopeStart
	}
	switch e, ofTurn := errors.AsType[*codexrpc.TurnError](failure); {
	case !ofTurn:
		return hopeNone
	case !IsOfLogin(failure):
		return hopeSeconds
	case e.Code == codexrpc.CodeUsageLimit:
		return hopeReset
	}
	return hopeNone
}

// resetsBefore reports whether the spent plan of one resets before that of other.
func resetsBefore(one, other error) bool {
	first, _ := errors.AsType[*codexrpc.TurnError](one)
	second, _ := errors.AsType[*codexrpc.TurnError](other)
	return !first.ResetsAt.IsZero() && (second.ResetsAt.IsZero() || first.ResetsAt.Before(second.ResetsAt))
}

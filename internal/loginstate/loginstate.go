// Package loginstate follows the health of the logins of app-servers.
package loginstate

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/failures"
)

// State is what is known of the login of an app-server.
type State string

// The states of a login.
const (
	Unknown   State = "unknown"    // it was not used yet
	Fine      State = "fine"       // the provider has answered
	Failing   State = "failing"    // the provider fails, or refuses what it is sent; the cause says more
	Spent     State = "spent"      // its plan allows no more use until it resets
	SignedOut State = "signed_out" // nobody is signed in, or the provider refuses the login
)

// States lists the states.
var States = []State{Unknown, Fine, Failing, Spent, SignedOut}

const (
	// spentRest is the longest time for which a login with a spent plan is not used. After that, a
	// turn tries the login again: the plan may have been reset early, or enlarged.
	spentRest = 5 * time.Minute
	// deniedRest is the shortest rest after Codex has said that the plan allows no use yet.
	deniedRest = time.Minute
	// signedOutRest is how long a signed-out login rests. Somebody may sign in unnoticed meanwhile.
	signedOutRest = time.Minute
	// minFailingRest and maxFailingRest bound the pause while the provider fails or limits the rate of
	// requests. Each further failure in a row doubles the pause. The first pause may be short: if there is
	// another login, a failed attempt delays a request by a second at most.
	minFailingRest = time.Second
	maxFailingRest = time.Minute
)

// Login is the state of an app-server's login, learnt from what the model's provider answers. A
// login that has failed is not used for a while (it rests). After that, one turn tries it again.
// All methods are safe for concurrent use. The zero value is a login that was not used yet.
type Login struct {
	mu         sync.Mutex
	state      State
	cause      Cause     // why the state is not Fine; empty in the states Fine and Unknown
	failure    error     // why the login rests or last rested; nil after a success
	resetsAt   time.Time // when a spent plan resets; zero: not known
	restsUntil time.Time // until when the login is not used
	beingTried bool      // one turn is trying the login again
	// picturesFrom is when the login may be used for pictures again; zero: at any time.
	picturesFrom time.Time
	models       models
	// failuresInRow counts failures and exceeded rate limits since the last answer of the provider.
	failuresInRow int
	// silence is how long turns have waited in total for a sign of the model before they were given
	// up, see GiveUp. It is 0 again after an answer of the provider.
	silence  time.Duration
	onChange func() // called without the lock after each change of the state, the cause or resetsAt; may be nil
}

// Status is the status of a login.
type Status struct {
	State      State
	Cause      Cause     // why the state is not Fine; empty in the states Fine and Unknown
	ResetsAt   time.Time // when a spent plan resets; zero: not known
	RestsUntil time.Time // when it is tried again; zero: it works, or was not used yet
}

// OnChange sets a quick function, called after changes of the state, its cause or the plan's reset.
func (l *Login) OnChange(changed func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onChange = changed
}

// Status returns the status.
func (l *Login) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{State: cmp.Or(l.state, Unknown), Cause: l.cause, ResetsAt: l.resetsAt, RestsUntil: l.restsUntil}
}

// Rests returns why the login rests (is not used) now, or nil. While it rests, other logins have to be used.
// If Status.RestsUntil has passed, but a turn still tries the login, the login rests for all other turns.
func (l *Login) Rests() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.beingTried && !time.Now().Before(l.restsUntil) {
		return nil
	}
	return l.failure
}

// Try is called before a turn. If the login has failed and no other turn tries it, this turn does: the
// login rests for other turns until done is called or this turn's result is recorded. Otherwise done is
// nil.
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

// update calls f with the lock held. If the status has changed, it then calls l.onChange without the lock.
func (l *Login) update(f func()) {
	l.mu.Lock()
	state, cause, resets := l.state, l.cause, l.resetsAt
	f()
	onChange := l.onChange
	if l.state == state && l.cause == cause && l.resetsAt.Equal(resets) {
		onChange = nil
	}
	l.mu.Unlock()
	if onChange != nil {
		onChange()
	}
}

// GiveUp records that a turn was given up after it had waited for a sign of the model, and adds up these
// waits. If the sum reaches patience, GiveUp returns true, and the sum is zero again.
func (l *Login) GiveUp(waited, patience time.Duration) (silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence += waited
	if silent = l.silence >= patience; silent {
		l.silence = 0
	}
	return silent
}

// setState sets the state with all that depends on it, and ends a trial. It runs within update.
func (l *Login) setState(state State, cause Cause, failure error, restsUntil time.Time) {
	l.state, l.cause, l.failure, l.restsUntil = state, cause, failure, restsUntil
	l.resetsAt, l.beingTried = time.Time{}, false
}

// Worked records that the provider has answered a turn with this model.
func (l *Login) Worked(model string) {
	l.update(func() {
		l.setState(Fine, "", nil, time.Time{})
		l.failuresInRow, l.silence = 0, 0
		l.models.work(model)
	})
}

// SignIn records that an app-server was started with a new login, in place of a refused or missing login.
// One turn tries the new login first. If the state is Fine, a turn has already succeeded with the new
// login, and the state stays Fine.
func (l *Login) SignIn() {
	l.update(func() {
		l.allowTrial()
		l.models = models{}
	})
}

// Recover records the end of what kept all turns of the login from working, for example an outage. If the
// login is in one of the states from, one turn tries the login, as after [Login.SignIn].
func (l *Login) Recover(from ...State) {
	l.update(func() {
		if slices.Contains(from, l.state) {
			l.allowTrial()
		}
	})
}

// allowTrial lets one turn try a failed login now. It runs within update, which holds the lock.
func (l *Login) allowTrial() {
	if l.state != Fine {
		l.state, l.cause = Unknown, ""
	}
	l.resetsAt, l.restsUntil, l.beingTried = time.Time{}, time.Time{}, false
}

// Recheck records what Codex says about a spent plan: whether it may be used, and when it resets.
// Recheck does nothing if the plan is not spent, or if Codex does not say whether it may be used.
func (l *Login) Recheck(limits codexrpc.RateLimits) {
	l.update(func() {
		if l.state != Spent || limits.Allowed == nil {
			return
		}
		now := time.Now()
		if at := limits.RetryAt(now); !at.IsZero() {
			l.resetsAt = at
		}
		switch {
		case *limits.Allowed:
			l.restsUntil = now // one turn tries the login
		case l.resetsAt.Before(now.Add(spentRest)):
			l.restsUntil = now.Add(deniedRest)
		default:
			l.restsUntil = now.Add(spentRest)
		}
	})
}

// Fail records a failure of a turn or of a request for the account, if it says something about the
// login, see [CauseOf]. It ignores other failures. The login then rests (is not used).
//
// If the login itself is the cause, it rests for a time that depends on the cause. Otherwise it rests as
// long as the provider asks to wait, but at least for atLeast. If both are 0, the rest is minFailingRest,
// doubled for each earlier failure in a row. This rest is at most maxFailingRest and does not shorten an
// earlier rest, and a login that is spent or signed out keeps its state.
func (l *Login) Fail(failure error, atLeast time.Duration) {
	cause := CauseOf(failure)
	if cause == "" {
		return
	}
	now, e := time.Now(), new(codexrpc.TurnError)
	errors.As(failure, &e) // e stays empty for another type of error, such as ErrNotLoggedIn
	l.update(func() {
		switch {
		case cause == PlanSpent:
			until := now.Add(spentRest)
			if !e.ResetsAt.IsZero() && e.ResetsAt.Before(until) {
				until = e.ResetsAt
			}
			l.setState(Spent, cause, failure, until)
			l.resetsAt = e.ResetsAt
		case cause.OfLogin():
			l.setState(cause.State(), cause, failure, now.Add(signedOutRest))
		default:
			rest := min(max(atLeast, cmp.Or(failures.RetryAfter(e), atLeast, minFailingRest<<min(l.failuresInRow, 6))), maxFailingRest)
			l.failuresInRow++
			until := now.Add(rest)
			if l.restsUntil.After(until) {
				until = l.restsUntil
			}
			if l.cause.OfLogin() {
				l.restsUntil, l.beingTried = until, false
				return
			}
			if l.state == Failing && cause == ProviderDown && (l.cause == TLSRefused || failures.LacksAccount(e)) {
				cause = l.cause // keep it: this failure only says that Codex cannot connect, or lacks its account
			}
			l.setState(Failing, cause, failure, until)
		}
	})
}

// picturesRest is how long a login makes no pictures after it has used up its pictures, if the
// provider does not say when the login may make more. Other logins make pictures meanwhile.
const picturesRest = 10 * time.Minute

// SpendPictures records that the login has no pictures left until the time until; zero: not known, so
// picturesRest is assumed. The login can still be used for everything else.
func (l *Login) SpendPictures(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.picturesFrom = until; until.IsZero() {
		l.picturesFrom = time.Now().Add(picturesRest)
	}
}

// PicturesSpent reports whether the login has no pictures left, as far as that is known.
func (l *Login) PicturesSpent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.picturesFrom)
}

// MoreHopeful returns the failure that is likely to end sooner, see hopeOf; if both are alike, the first.
func MoreHopeful(one, other error) error {
	first, firstReset := hopeOf(one)
	second, secondReset := hopeOf(other)
	if cmp.Or(second-first, secondReset.Compare(firstReset)) < 0 {
		return other
	}
	return one
}

// The kinds of failures. The lower one is likely to end sooner.
const (
	hopeStart   = iota // the process of an app-server will start again
	hopeSeconds        // the provider fails, or limits the rate of requests
	hopeReset          // the plan is spent
	hopeUnknown        // the plan is spent, and it is not known when it resets
	hopeNone           // the operator must mend the login, or the login cannot do what the turn needs
)

// hopeOf returns the kind of a failure and, if the kind is hopeReset, the time of the reset.
func hopeOf(failure error) (kind int, reset time.Time) {
	if _, notReady := errors.AsType[*appserver.NotReadyError](failure); notReady {
		return hopeStart, reset
	}
	switch e, ofTurn := errors.AsType[*codexrpc.TurnError](failure); {
	case !ofTurn, failures.ForbidsModel(e):
		return hopeNone, reset
	case !CauseOf(failure).OfLogin():
		return hopeSeconds, reset
	case e.Code != codexrpc.CodeUsageLimit:
		return hopeNone, reset
	case e.ResetsAt.IsZero():
		return hopeUnknown, reset
	default:
		return hopeReset, e.ResetsAt
	}
}

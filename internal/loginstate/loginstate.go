// Package loginstate follows the health of the logins of app-servers.
package loginstate

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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
	Spent     State = "spent"      // its plan's own meter allows no more use until it resets; models with another meter go on
	SignedOut State = "signed_out" // nobody is signed in, or the provider refuses the login
)

// States lists the states.
var States = []State{Unknown, Fine, Failing, Spent, SignedOut}

const (
	// spentRest is the longest time for which a spent meter of a login is not used. After that, a
	// turn tries it again: it may have been reset early, or enlarged.
	spentRest = 5 * time.Minute
	// deniedRest is the shortest rest after Codex has said that the meter allows no use yet.
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
	mu     sync.Mutex
	state  State                // without what its meters say
	cause  Cause                // why the state is not Fine; empty in the states Fine and Unknown
	rest   rest                 // of the whole login
	spent  map[string]*rest     // of the meters that are spent, by ID
	limits *codexrpc.RateLimits // nil: not known
	// picturesFrom is when the login may be used for pictures again; zero: at any time.
	picturesFrom time.Time
	models       models
	// failuresInRow counts failures and exceeded rate limits since the last answer of the provider.
	failuresInRow int
	// silence is how long turns have waited in total for a sign of the model before they were given
	// up, see GiveUp. It is 0 again after an answer of the provider.
	silence  time.Duration
	answers  atomic.Int64 // see Answers
	onChange func()       // called without the lock after each change of the state, the cause or resetsAt; may be nil
}

// rest says why a login, or one of its meters, is not used for a while.
type rest struct {
	failure    error     // why it rests or last rested; nil after a success
	until      time.Time // until when it is not used
	resetsAt   time.Time // when a spent meter resets; zero: not known
	beingTried bool      // one turn is trying it again
}

// reason returns why turns are not to use what rests, or nil.
func (r *rest) reason(now time.Time) error {
	if r == nil || !r.beingTried && !now.Before(r.until) {
		return nil
	}
	return r.failure
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
	return l.status()
}

func (l *Login) status() Status {
	plan := l.spent[codexrpc.PlanMeter]
	if plan == nil && l.isExhausted("") {
		resets, _ := l.limits.Meter("").Spent(time.Now())
		plan = &rest{resetsAt: resets}
	}
	if plan != nil && l.state != SignedOut {
		return Status{State: Spent, Cause: PlanSpent, ResetsAt: plan.resetsAt, RestsUntil: plan.until}
	}
	return Status{State: cmp.Or(l.state, Unknown), Cause: l.cause, RestsUntil: l.rest.until}
}

// Outlook says whether turns with one model can use a login.
type Outlook struct {
	// Rests is why no turn is to use the login now: other logins have to be used. Nil: it does not rest.
	// While a turn tries the login, it rests for all other turns.
	Rests error
	Until time.Time // until when the login, or the spent meter of the model, is not used; zero: there was no failure
	// Exhausted is whether the meter has nothing left, as the provider says, though no turn has been refused.
	Exhausted bool
	Reserve   bool // the Luna Reserve serves in place of the model, see [codexrpc.ReserveModel]
}

// For returns the outlook for turns with a model.
func (l *Login) For(model string) Outlook {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	o := Outlook{Rests: l.rest.reason(now), Until: l.rest.until, Reserve: l.onReserve(model)}
	if o.Reserve {
		model = codexrpc.ReserveModel
	}
	if spent := l.spent[l.limits.MeterID(model)]; l.state != SignedOut && spent.reason(now) != nil {
		o.Rests, o.Until = spent.failure, cmp.Or(spent.resetsAt, spent.until)
	}
	o.Exhausted = l.isExhausted(model)
	return o
}

// allows returns whether the provider allows the use of a meter, as far as that is known. Only its word counts
// for the plan's own meter, unless the meter is spent: of the others, there is no word.
func (l *Login) allows(m *codexrpc.Meter) (allowed, known bool) {
	_, spent := m.Spent(time.Now())
	switch {
	case m == nil:
		return false, false
	case m.ID != codexrpc.PlanMeter:
		return !spent, true
	case l.limits.Allowed != nil:
		return *l.limits.Allowed, true
	}
	return false, spent
}

// isExhausted reports whether the provider says that the meter of a model has nothing left.
func (l *Login) isExhausted(model string) bool {
	allowed, known := l.allows(l.limits.Meter(model))
	return known && !allowed
}

// onReserve reports whether the Luna Reserve serves in place of a model. The rule is that of Codex's own
// terminal: the provider offers the reserve, and does not allow the use of the plan's own meter.
func (l *Login) onReserve(model string) bool {
	offered := l.limits != nil && l.limits.LunaReserve && l.limits.Allowed != nil && !*l.limits.Allowed
	return offered && l.limits.MeterID(model) == codexrpc.PlanMeter && !l.isExhausted(codexrpc.ReserveModel)
}

// Rests returns why the login rests (is not used) for turns with a model, see [Outlook].
func (l *Login) Rests(model string) error { return l.For(model).Rests }

// Spent reports whether a meter of the login's limits is spent, as turns or the provider have shown.
func (l *Login) Spent(meter *codexrpc.Meter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	allowed, known := l.allows(meter)
	return l.spent[meter.ID] != nil || known && !allowed
}

// Limits returns the limits of the login's plan, as the provider last told them; nil: not known.
func (l *Login) Limits() *codexrpc.RateLimits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

// Try is called before a turn with a model. If the login or the model's meter has failed and no other turn
// tries it, this turn does: it rests for other turns until done is called or this turn's result is recorded.
// Otherwise done is nil.
func (l *Login) Try(model string) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tried []*rest
	for _, r := range []*rest{&l.rest, l.spent[l.limits.MeterID(model)]} {
		if r != nil && r.failure != nil && !r.beingTried {
			r.beingTried = true
			tried = append(tried, r)
		}
	}
	if tried == nil {
		return nil
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, r := range tried {
			r.beingTried = false
		}
	}
}

// update calls f with the lock held. If the status has changed, it then calls l.onChange without the lock.
func (l *Login) update(f func()) {
	l.mu.Lock()
	before := l.status()
	f()
	now, onChange := l.status(), l.onChange
	if now.State == before.State && now.Cause == before.Cause && now.ResetsAt.Equal(before.ResetsAt) {
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
	l.state, l.cause, l.rest = state, cause, rest{failure: failure, until: restsUntil}
}

// Worked records that the provider has answered a turn with this model.
func (l *Login) Worked(model string) {
	l.update(func() {
		l.setState(Fine, "", nil, time.Time{})
		delete(l.spent, l.limits.MeterID(model))
		l.failuresInRow, l.silence = 0, 0
		l.answers.Add(1)
		l.models.work(model)
	})
}

// Answers returns how many turns the provider has answered.
func (l *Login) Answers() int64 { return l.answers.Load() }

// SignIn records that an app-server was started with a new login, in place of a refused or missing login.
// One turn tries the new login first. If the state is Fine, a turn has already succeeded with the new
// login, and the state stays Fine.
func (l *Login) SignIn() {
	l.update(func() {
		l.allowTrial()
		l.models, l.spent, l.limits = models{}, nil, nil
	})
}

// Recover records the end of what kept all turns of the login from working, for example an outage. If the
// login is in one of the states from, one turn tries the login, as after [Login.SignIn]. With Spent, its meters
// were reset, so all turns may use them.
func (l *Login) Recover(from ...State) {
	l.update(func() {
		if slices.Contains(from, l.state) {
			l.allowTrial()
		}
		if slices.Contains(from, Spent) {
			l.spent = nil
			if l.state == Fine {
				l.state = Unknown
			}
		}
	})
}

// allowTrial lets one turn try a failed login now. It runs within update, which holds the lock.
func (l *Login) allowTrial() {
	if l.state != Fine {
		l.state, l.cause = Unknown, ""
	}
	l.rest.until, l.rest.beingTried = time.Time{}, false
}

// Learn records the limits of the plan, as the provider tells them: which meters may be used, and when they reset.
func (l *Login) Learn(limits *codexrpc.RateLimits) {
	l.update(func() {
		l.limits = limits
		now := time.Now()
		for id, r := range l.spent {
			if i := slices.IndexFunc(limits.Meters, func(m codexrpc.Meter) bool { return m.ID == id }); i >= 0 {
				l.recheck(r, &limits.Meters[i], now)
			} else if id != codexrpc.PlanMeter {
				delete(l.spent, id) // another meter counts its model now
			}
		}
	})
}

// recheck records what the limits say of a spent meter.
func (l *Login) recheck(r *rest, meter *codexrpc.Meter, now time.Time) {
	if resets, _ := meter.Spent(now); !resets.IsZero() {
		r.resetsAt = resets
	}
	switch allowed, known := l.allows(meter); {
	case !known:
	case allowed:
		r.until = now // one turn tries it
	case r.resetsAt.Before(now.Add(spentRest)):
		r.until = now.Add(deniedRest)
	default:
		r.until = now.Add(spentRest)
	}
}

// spendMeter records that the meter of a model is spent.
func (l *Login) spendMeter(model string, failure *codexrpc.TurnError, now time.Time) {
	if l.spent == nil {
		l.spent = make(map[string]*rest)
	}
	r := &rest{failure: failure, resetsAt: failure.ResetsAt, until: now.Add(spentRest)}
	if !r.resetsAt.IsZero() && r.resetsAt.Before(r.until) {
		r.until = r.resetsAt
	}
	l.spent[l.limits.MeterID(model)] = r
}

// Fail records a failure of a turn with a model, or of a request for the account, if it says something about
// the login, see [CauseOf]. It ignores other failures. The login then rests (is not used), or only its meter
// that counts the model, if that is spent.
//
// If the login itself is the cause, it rests for a time that depends on the cause. Otherwise it rests as
// long as the provider asks to wait, but at least for atLeast. If both are 0, the rest is minFailingRest,
// doubled for each earlier failure in a row. This rest is at most maxFailingRest and does not shorten an
// earlier rest, and a login that is signed out keeps its state.
func (l *Login) Fail(model string, failure error, atLeast time.Duration) {
	cause := CauseOf(failure)
	if cause == "" {
		return
	}
	now, e := time.Now(), new(codexrpc.TurnError)
	errors.As(failure, &e) // e stays empty for another type of error, such as ErrNotLoggedIn
	l.update(func() {
		switch {
		case cause == PlanSpent:
			if l.state != Fine { // the provider has answered
				l.setState(Unknown, "", nil, time.Time{})
			}
			l.spendMeter(model, e, now)
		case cause.OfLogin():
			l.setState(cause.State(), cause, failure, now.Add(signedOutRest))
		default:
			rest := min(max(atLeast, cmp.Or(failures.RetryAfter(e), atLeast, minFailingRest<<min(l.failuresInRow, 6))), maxFailingRest)
			l.failuresInRow++
			until := now.Add(rest)
			if l.rest.until.After(until) {
				until = l.rest.until
			}
			if l.cause.OfLogin() {
				l.rest.until, l.rest.beingTried = until, false
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

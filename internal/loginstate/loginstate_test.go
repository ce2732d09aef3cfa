package loginstate

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

// TestFailing checks that a login rests longer with each failure that is not its own, or as long
// as the provider says, is tried by one turn then, and is fine once it works.
func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		limited := &codexrpc.TurnError{Code: "rateLimitExceeded"}
		restsFor := func(want time.Duration) {
			t.Helper()
			if until, rests := l.Status().RestsUntil, l.Rests("") != nil; !rests || time.Until(until) != want || l.Rests("") != limited {
				t.Errorf("rests: %t, for %s", rests, time.Until(until))
			}
			if s := l.Status(); s.State != Failing || s.Cause != RateLimited {
				t.Errorf("the status is %+v", s)
			}
			time.Sleep(want)
			if rests := l.Rests("") != nil; rests {
				t.Errorf("it rests longer than %s", want)
			}
		}
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			l.Fail("", limited, 0)
			restsFor(want * time.Second)
		}
		if done := l.Try(""); done == nil {
			t.Error("no turn tries it")
		} else if rests := l.Rests("") != nil; !rests {
			t.Error("all turns try it")
		}
		l.Worked("m")
		if rests := l.Rests("") != nil; rests || l.Status().Cause != "" {
			t.Error("it rests although it works")
		}
		l.Fail("", &codexrpc.TurnError{Code: "rateLimitExceeded", Message: "try again in 7s"}, 0)
		if until := l.Status().RestsUntil; time.Until(until) != 7*time.Second {
			t.Errorf("it rests for %s", time.Until(until))
		}
		l.Fail("", limited, time.Hour)
		restsFor(time.Minute)
		spent := &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}
		l.Fail("", spent, 0)
		l.Fail("", limited, 0)
		if l.Status().State != Spent || l.Rests("") != spent || l.Status().Cause != PlanSpent {
			t.Errorf("a spent login that fails is %+v", l.Status())
		}
	})
}

// TestLogin lets a login be spent, rest, be tried by one turn, and work again.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		rests := func(want bool) {
			t.Helper()
			if got := l.Rests("") != nil; got != want || (l.Rests("") != nil) != want {
				t.Errorf("rests: %t, for %v", got, l.Rests(""))
			}
		}
		state := func(want State) {
			t.Helper()
			if got := l.Status().State; got != want {
				t.Errorf("is %s, want %s", got, want)
			}
		}
		state(Unknown)
		l.Fail("", errors.New("cut"), 0)
		l.Fail("", &codexrpc.TurnError{Code: "badRequest"}, 0) // neither is the login's
		state(Unknown)
		rests(false)
		l.Fail("", &codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: time.Now().Add(time.Hour)}, 0)
		rests(true)
		state(Spent)
		time.Sleep(spentRest)
		rests(false)
		done := l.Try("")
		rests(true) // for all others
		if l.Try("") != nil {
			t.Error("another turn tries it, too")
		}
		rests(true)
		done() // the turn has found out nothing
		rests(false)
		l.Try("")
		l.Worked("m")
		rests(false)
		state(Fine)
		if l.Try("") != nil {
			t.Error("a turn tries a login that works")
		}
		l.Fail("", &codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: time.Now().Add(time.Second)}, 0)
		time.Sleep(time.Second)
		rests(false)
		l.Fail("", &codexrpc.TurnError{Code: codexrpc.CodeUnauthorized}, 0)
		state(SignedOut)
		rests(true)
		time.Sleep(signedOutRest)
		rests(false)
	})
}

// plan returns the plan's own meter with one window.
func plan(used float64, resets time.Time) []codexrpc.Meter {
	return []codexrpc.Meter{{ID: codexrpc.PlanMeter, Primary: &codexrpc.RateWindow{UsedPercent: used, ResetsAt: resets}}}
}

// TestLoginRecheck checks how long a spent login rests by what Codex says of its limits.
func TestLoginRecheck(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		limits *codexrpc.RateLimits
		rest   time.Duration
	}{
		"not known":               {&codexrpc.RateLimits{}, spentRest},
		"allowed":                 {&codexrpc.RateLimits{Allowed: &yes, Meters: plan(0, time.Time{})}, 0},
		"denied":                  {&codexrpc.RateLimits{Allowed: &no, Meters: plan(0, time.Time{})}, spentRest},
		"allowed, windows full":   {&codexrpc.RateLimits{Allowed: &yes, Meters: plan(100, time.Now().AddDate(9, 0, 0))}, 0},
		"denied, windows not so":  {&codexrpc.RateLimits{Allowed: &no, Meters: plan(3, time.Time{})}, spentRest},
		"windows full, no word":   {&codexrpc.RateLimits{Meters: plan(100, time.Now().AddDate(9, 0, 0))}, spentRest},
		"windows empty, no word":  {&codexrpc.RateLimits{Meters: plan(0, time.Time{})}, spentRest},
		"windows unread, no word": {&codexrpc.RateLimits{Plan: "plus"}, spentRest},
	} {
		synctest.Test(t, func(t *testing.T) {
			var l Login
			l.Fail("", &codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: time.Now().Add(time.Hour)}, 0)
			l.Learn(c.limits)
			if until, rests := l.Status().RestsUntil, l.Rests("") != nil; time.Until(until) != c.rest || rests != (c.rest > 0) {
				t.Errorf("%s: it rests for %s", name, time.Until(until))
			}
			if l.Status().State != Spent {
				t.Errorf("%s: the state is %s before a turn has tried it", name, l.Status().State)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var l Login
		l.Fail("", &codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: time.Now().Add(time.Second)}, 0)
		time.Sleep(2 * time.Second)
		l.Learn(&codexrpc.RateLimits{Allowed: &no, Meters: plan(0, time.Time{})})
		if until, rests := l.Status().RestsUntil, l.Rests("") != nil; !rests || time.Until(until) != deniedRest {
			t.Errorf("after its reset a denied plan rests for %s", time.Until(until))
		}
		changes, later := 0, time.Now().Add(time.Hour)
		l.OnChange(func() { changes++ })
		for range 2 {
			l.Learn(&codexrpc.RateLimits{Allowed: &no, Meters: plan(100, later)})
		}
		if at := l.Status().ResetsAt; !at.Equal(later) || changes != 1 {
			t.Errorf("it resets at %s, which was reported %d times", at, changes)
		}
		l.Worked("m")
		l.Learn(&codexrpc.RateLimits{Allowed: &no, Meters: plan(0, time.Time{})})
		if rests := l.Rests("") != nil; rests {
			t.Error("a login that works rests")
		}
	})
}

// TestLoginMeters checks that a meter that the provider drops does not stay spent, as its model counts elsewhere then.
func TestLoginMeters(t *testing.T) {
	var l Login
	spark := codexrpc.Meter{ID: "codex_spark", Name: "Spark"}
	both := &codexrpc.RateLimits{Meters: append(plan(0, time.Time{}), spark)}
	l.Learn(both)
	l.Fail("spark", &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}, 0)
	if l.Rests("spark") == nil || l.Rests("") != nil || !l.Spent(&spark) {
		t.Error("the meter of the model rests, and no other")
	}
	l.Learn(&codexrpc.RateLimits{Meters: plan(0, time.Time{})})
	if l.Learn(both); l.Rests("spark") != nil || l.Spent(&spark) {
		t.Error("the meter is still spent")
	}
}

// TestLoginSignsIn checks that a login that is signed out rests until there is another one,
// and that one turn tries that, while nobody takes it for signed out any more.
func TestLoginSignsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		changes := 0
		l.OnChange(func() { changes++ })
		l.Fail("", codexrpc.ErrNotLoggedIn, 0)
		l.Fail("", codexrpc.ErrNotLoggedIn, 0) // says nothing new
		if rests := l.Rests("") != nil; !rests || l.Status().State != SignedOut || l.Status().Cause != NotSignedIn {
			t.Errorf("%+v", l.Status())
		}
		l.SignIn()
		if l.Status().State != Unknown || l.Status().Cause != "" || l.Rests("") != nil {
			t.Errorf("%+v", l.Status())
		}
		done := l.Try("")
		if rests := l.Rests("") != nil; !rests {
			t.Error("the crowd tries the new login, too")
		}
		done()
		l.Worked("m")
		if rests := l.Rests("") != nil; rests || changes != 3 {
			t.Errorf("rests %t after %d changes", rests, changes)
		}
		l.SignIn() // is told late
		if l.Status().State != Fine {
			t.Errorf("%+v", l.Status())
		}
	})
}

// TestLoginReset checks that turns use a login again whose spent plan was reset, and that this
// changes nothing of a login that rests for something else.
func TestLoginReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		l.Fail("", codexrpc.ErrNotLoggedIn, 0)
		l.Recover(Spent)
		if l.Status().State != SignedOut {
			t.Errorf("%+v", l.Status())
		}
		l.Fail("", &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit, ResetsAt: time.Now().Add(time.Hour)}, 0)
		l.Recover(Spent)
		if now := l.Status(); now != (Status{State: Unknown}) || l.Rests("") != nil {
			t.Errorf("%+v", now)
		}
		if l.Try("") != nil {
			t.Error("one turn tries it, while the others wait")
		}
		l.Fail("", &codexrpc.TurnError{Code: "serverOverloaded"}, 0)
		if l.Status().State != Failing {
			t.Errorf("a provider that fails after the reset: %+v", l.Status())
		}
	})
}

// TestMoreHopeful checks which of two failures a client gets.
func TestMoreHopeful(t *testing.T) {
	now := time.Now()
	soon := &codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: now.Add(time.Minute)}
	late := &codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: now.Add(time.Hour)}
	undated := &codexrpc.TurnError{Code: "usageLimitExceeded"}
	refused := &codexrpc.TurnError{Code: "unauthorized"}
	limited := &codexrpc.TurnError{Code: "rateLimitExceeded"}
	starting := &appserver.NotReadyError{RetryAfter: time.Second}
	forbidden := &codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 403, Message: "no access to model m"}
	order := []error{starting, limited, soon, late, undated, forbidden, refused, codexrpc.ErrNotLoggedIn}
	for i, better := range order {
		for _, worse := range order[i+1:] {
			if better == refused || better == forbidden {
				continue // all wait for the operator
			}
			if MoreHopeful(better, worse) != better || MoreHopeful(worse, better) != better {
				t.Errorf("%v is not before %v", better, worse)
			}
		}
	}
}

// TestGiveUp checks that turns without a sign count together, until the provider has answered.
func TestGiveUp(t *testing.T) {
	var l Login
	for i, want := range []bool{false, false, true, false, false, true} {
		if got := l.GiveUp(4*time.Second, 10*time.Second); got != want {
			t.Errorf("%d: %t", i, got)
		}
	}
	for range 5 {
		if l.GiveUp(8*time.Second, 10*time.Second) {
			t.Error("the provider has answered in between")
		}
		l.Worked("m")
	}
}

// TestPicturesSpent: a login without pictures has some again when the provider says, or after a while.
func TestPicturesSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		if l.PicturesSpent() {
			t.Error("a new login has no pictures")
		}
		for said, rest := range map[time.Duration]time.Duration{time.Hour: time.Hour, 0: picturesRest} {
			var until time.Time
			if said > 0 {
				until = time.Now().Add(said)
			}
			l.SpendPictures(until)
			if time.Sleep(rest - 1); !l.PicturesSpent() {
				t.Errorf("said %v: it has some too early", said)
			}
			if time.Sleep(time.Nanosecond); l.PicturesSpent() {
				t.Errorf("said %v: it has none", said)
			}
			if rests := l.Rests("") != nil; rests {
				t.Error("it rests for everything")
			}
		}
	})
}

// TestSpentUnnamed: a meter without a name of a model is told by itself, not as the plan's own.
func TestSpentUnnamed(t *testing.T) {
	var l Login
	limits := &codexrpc.RateLimits{Allowed: new(false), Meters: append(plan(100, time.Now().Add(time.Hour)), codexrpc.Meter{ID: "codex_x"})}
	l.Learn(limits)
	if !l.Spent(&limits.Meters[0]) || l.Spent(&limits.Meters[1]) {
		t.Errorf("spent: the plan's own %t, the other one %t", l.Spent(&limits.Meters[0]), l.Spent(&limits.Meters[1]))
	}
}

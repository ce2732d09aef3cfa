package gateway

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestLogin lets a login be spent, rest, be tried by one turn, and work again.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		rests := func(want bool) {
			t.Helper()
			if _, got := l.Rests(); got != want || (l.Failure() != nil) != want {
				t.Errorf("rests: %t, for %v", got, l.Failure())
			}
		}
		state := func(want LoginState) {
			t.Helper()
			if got, _ := l.State(); got != want {
				t.Errorf("is %s, want %s", got, want)
			}
		}
		state(LoginUnknown)
		if l.fail(errors.New("cut")) || l.fail(&codexrpc.TurnError{Code: "serverOverloaded"}) {
			t.Error("took another failure for the login's")
		}
		rests(false)
		if !l.fail(&codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: time.Now().Add(time.Hour)}) {
			t.Error("did not take a spent plan for the login's failure")
		}
		rests(true)
		state(LoginSpent)
		time.Sleep(spentRest)
		rests(false)
		done := l.Try()
		rests(true) // for all others
		l.Try()()   // which try in vain, and change nothing
		rests(true)
		done() // the turn has found out nothing
		rests(false)
		l.Try()
		l.worked()
		rests(false)
		state(LoginFine)
		l.fail(&codexrpc.TurnError{Code: "usageLimitExceeded", ResetsAt: time.Now().Add(time.Second)})
		time.Sleep(time.Second)
		rests(false)
		l.fail(&codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 401})
		state(LoginRefused)
		rests(true)
		time.Sleep(refusedRest)
		rests(false)
	})
}

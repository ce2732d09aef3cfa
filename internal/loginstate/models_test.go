package loginstate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestRefuseModel checks that a model that the provider refuses keeps no other model from the login,
// and that the login counts as signed out only while no model works.
func TestRefuseModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Login
		refusal := &codexrpc.TurnError{Code: "httpConnectionFailed", HTTPStatus: 401}
		is := func(state State, refused ...string) {
			t.Helper()
			if s := l.Status(); s.State != state {
				t.Errorf("is %s, want %s", s.State, state)
			}
			if rests := l.Rests("") != nil; rests {
				t.Error("it rests for all models")
			}
			for _, model := range refused {
				if l.ModelRefusal(model) != refusal {
					t.Errorf("%s is not refused", model)
				}
			}
		}
		l.RefuseModel("a", refusal)
		is(SignedOut, "a")
		l.Worked("b")
		is(Fine, "a")
		l.RefuseModel("c", refusal)
		is(Fine, "a", "c")
		l.Worked("c")
		l.RefuseModel("b", refusal)
		is(Fine, "a", "b")
		l.RefuseModel("c", refusal) // as all that have worked
		is(SignedOut, "a", "b", "c")
		time.Sleep(signedOutRest)
		if l.ModelRefusal("a") != nil {
			t.Error("the refusal does not end")
		}
		l.SignIn()
		l.Worked("d")
		l.RefuseModel("e", refusal)
		is(Fine, "e")
		time.Sleep(proofTime) // nobody has asked d since
		l.RefuseModel("e", refusal)
		is(SignedOut, "e")
		l.SignIn()
		l.Fail("", &codexrpc.TurnError{Code: codexrpc.CodeUsageLimit}, 0)
		l.RefuseModel("a", refusal)
		if s := l.Status(); s.State != Spent {
			t.Errorf("a spent login is %s", s.State)
		}
		for i := range 2 * maxModels {
			l.RefuseModel(string(rune('a'+i)), refusal)
		}
		if n := len(l.models.refused); n > maxModels {
			t.Errorf("%d models are remembered", n)
		}
	})
}

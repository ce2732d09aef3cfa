package e2e

import (
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// loggedIn reports whether the sites that a test starts have a login.
var loggedIn bool

// WithLogin gives the sites that a test starts a ChatGPT login, whose back end is [Site.Plan].
func WithLogin(t testing.TB) { setLoggedIn(t, true) }

// WithoutLogin gives them a model provider of their own, without a login.
func WithoutLogin(t testing.TB) { setLoggedIn(t, false) }

func setLoggedIn(t testing.TB, login bool) {
	before := loggedIn
	loggedIn = login
	t.Cleanup(func() { loggedIn = before })
}

// NewPlan starts the back end of a plan, until the end of the test, over the transport of the
// test. model answers for it.
func NewPlan(t testing.TB, model *scriptedmodel.Server) *planbackend.Backend {
	t.Helper()
	plan, err := planbackend.Listen(planbackend.Options{Codex: CodexBinary, Model: model, HTTP: Transport == scriptedmodel.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plan.Close)
	return plan
}

// logIn makes a back end and the home of a login for the site.
func (s *Site) logIn(home codexhome.Options) {
	s.T.Helper()
	s.Plan = NewPlan(s.T, s.Model)
	s.Login = s.Plan.AddLogin(planbackend.LoginOptions{})
	if home.More != "" {
		WriteFile(s.T, s.Home+"/config.toml", home.More)
	}
	if err := s.Login.Write(s.Home); err != nil {
		s.T.Fatal(err)
	}
}

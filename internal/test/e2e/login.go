package e2e

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// loginVariable is the environment variable that is none if only tests that need a login have one.
const loginVariable = "LOGIN"

// loggedIn says that the sites of a test have a login, mustLogIn that the test is about one.
var loggedIn, mustLogIn bool

// chooseLogin decides from the environment whether they have.
func chooseLogin() error {
	switch chosen := os.Getenv(loginVariable); chosen {
	case "":
		loggedIn = true
	case "none":
	default:
		return fmt.Errorf("%s is %q; want none, or nothing", loginVariable, chosen)
	}
	return nil
}

// WithLogin gives a test's sites a ChatGPT login, at [Site.Plan], whatever the environment says.
func WithLogin(t testing.TB) {
	setLogin(t, true)
	mustLogIn = true
	t.Cleanup(func() { mustLogIn = false })
}

// WithoutLogin gives them a model provider of their own, without a login.
func WithoutLogin(t testing.TB) { setLogin(t, false) }

func setLogin(t testing.TB, login bool) {
	before, over := loggedIn, Transport
	if loggedIn = login; !oneTransport {
		Transport = usual(login)
	}
	t.Cleanup(func() { loggedIn, Transport = before, over })
}

// Home is a CODEX_HOME.
type Home struct {
	Dir string
	// Plan is the back end of Codex's plan, Login its login in the home; nil without a login.
	Plan  *planbackend.Backend
	Login *planbackend.Login
	// Provider is the URL of the model for a Codex without a login.
	Provider string
}

// NewHome writes a CODEX_HOME for a model and the test, with a login if the test's sites have one.
func NewHome(t testing.TB, model *scriptedmodel.Server, opts codexhome.Options) Home {
	t.Helper()
	h := Home{Dir: t.TempDir()}
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	h.Provider = server.URL + "/v1"
	if !loggedIn {
		WriteHome(t, h.Dir, h.Provider, opts)
		return h
	}
	var err error
	h.Plan, err = planbackend.Listen(planbackend.Options{Codex: CodexBinary, Model: model, HTTP: Transport == scriptedmodel.HTTP})
	must.OK(t, err)
	t.Cleanup(h.Plan.Close)
	t.Cleanup(func() {
		if unknown := h.Plan.Unknown(); len(unknown) > 0 {
			t.Errorf("Codex also asked for %q", unknown)
		}
	})
	h.Login = h.Plan.AddLogin(planbackend.LoginOptions{})
	if opts.More != "" {
		WriteFile(t, filepath.Join(h.Dir, "config.toml"), opts.More)
	}
	must.OK(t, h.Login.Write(h.Dir))
	return h
}

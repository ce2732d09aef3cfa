package operations

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// account is a login with its own model.
type account struct {
	e2e.Home
	model *scriptedmodel.Server
	block string
}

// newAccount returns a login whose model answers with end, or succeeds if end is nil.
func newAccount(t *testing.T, end scriptedmodel.End) *account {
	t.Helper()
	a := &account{model: scriptedmodel.New(scriptedmodel.Options{})}
	a.Home = e2e.NewHome(t, a.model, codexhome.Options{})
	t.Cleanup(a.model.Close)
	if end != nil {
		a.answer(end)
	}
	a.block = "app_server " + e2e.CodexBinary + " app-server {\nhome " + a.Dir + "\nconversations off\n}\n"
	return a
}

// answer makes the model answer with end until mend is called.
func (a *account) answer(end scriptedmodel.End) (mend func()) {
	if _, spent := end.(scriptedmodel.UsageLimit); spent && a.Login != nil {
		a.Login.SetUse(planbackend.Use{Primary: 100, Spent: true})
	}
	return a.model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: end}, end != nil
	})
}

var (
	spentPlan = scriptedmodel.UsageLimit{ResetsIn: time.Hour}
	signedOut = scriptedmodel.HTTPError{Status: http.StatusUnauthorized, Code: "token_expired", Message: "Your login has expired."}
)

// TestLeftWorkspace checks that a client does not notice a login whose account has left its workspace
// beside one that works.
func TestLeftWorkspace(t *testing.T) {
	e2e.WithLogin(t)
	left, works := newAccount(t, nil), newAccount(t, nil)
	left.Login.LeaveWorkspace()
	s := e2e.NewSite(t, left.block+works.block)
	s.WaitReady()
	for range 16 {
		if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK || !strings.Contains(text, "ok") {
			t.Errorf("%s %s", response.Status, text)
		}
	}
}

// TestFailedProvider checks that a turn whose provider fails before there is any output moves
// to another login, once, and what the client gets if that fails as well.
func TestFailedProvider(t *testing.T) {
	limited := scriptedmodel.HTTPError{Status: http.StatusTooManyRequests}
	broken := scriptedmodel.HTTPError{Status: http.StatusInternalServerError}
	first, second := newAccount(t, nil), newAccount(t, nil)
	s := e2e.NewSite(t, first.block+second.block+"pool reserve")
	s.WaitMembers(2)
	asked := func() [2]int { return [2]int{first.asked(), second.asked()} }
	rested := func(s *e2e.Site) {
		e2e.WaitFor(s.T, "the first login to be used, after its rest", func() bool {
			before := first.asked()
			response, text := s.Post(e2e.ChatBody("say:ok", nil), nil)
			return response.StatusCode == http.StatusOK && strings.Contains(text, "ok") && first.asked() > before
		})
	}
	for _, c := range []struct {
		name       string
		end, other scriptedmodel.End
		status     int
		asked      [2]int
	}{
		{"a wrong request", scriptedmodel.HTTPError{Status: http.StatusBadRequest}, nil, 400, [2]int{1, 0}},
		{"a policy", scriptedmodel.Failed{Code: "cyber_policy"}, nil, 400, [2]int{1, 0}},
		{"the context", scriptedmodel.Failed{Code: "context_length_exceeded"}, nil, 400, [2]int{1, 0}},
		{"an unknown model", scriptedmodel.HTTPError{Status: http.StatusNotFound}, nil, 404, [2]int{1, 0}},
		{"a limit", limited, nil, 200, [2]int{1, 1}},
		{"an error", broken, nil, 200, [2]int{1, 1}},
		{"forbidden", scriptedmodel.HTTPError{Status: http.StatusForbidden}, nil, 200, [2]int{1, 1}},
		{"overloaded", scriptedmodel.HTTPError{Status: http.StatusServiceUnavailable}, nil, 200, [2]int{1, 1}},
		{"cut off", scriptedmodel.Cut{}, nil, 200, [2]int{1, 1}},
		{"both fail", limited, broken, 500, [2]int{1, 1}},
		{"the other spent", broken, spentPlan, 500, [2]int{2, 1}}, // a spent login makes a turn move at any time
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.At(t)
			rested(s)
			before := asked()
			defer first.answer(c.end)()
			defer second.answer(c.other)()
			response, text := s.Post(e2e.ChatBody("say:ok", nil), nil)
			if response.StatusCode != c.status || c.status == http.StatusOK && !strings.Contains(text, "ok") {
				t.Errorf("%s %s, want %d", response.Status, text, c.status)
			}
			now := asked()
			if got := [2]int{now[0] - before[0], now[1] - before[1]}; got != c.asked {
				t.Errorf("the providers got %v requests, want %v", got, c.asked)
			}
		})
	}
	t.Run("with output", func(t *testing.T) { // last: Codex asks over HTTP after that
		s := s.At(t)
		rested(s)
		before := second.asked()
		if _, text := s.Post(e2e.ChatBody("say:begun;cutoff", map[string]any{"stream": true}), nil); !strings.Contains(text, "upstream_disconnected") || second.asked() != before {
			t.Errorf("%s, and %d requests of the other provider", text, second.asked()-before)
		}
	})
	t.Run("one login", func(t *testing.T) {
		only := newAccount(t, limited)
		s := e2e.NewSite(t, strings.Replace(only.block, "conversations", "processes 2\nconversations", 1))
		s.WaitMembers(2)
		if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusTooManyRequests || only.asked() != 1 {
			t.Errorf("%s %s after %d requests of the provider", response.Status, text, only.asked())
		}
	})
}

// TestSignInAgain checks that a login which the provider refuses is used again when the
// operator signs in, without a restart by hand, and that a turn which runs goes on.
func TestSignInAgain(t *testing.T) {
	ownTemp(t)
	s, admin := newLoginSite(t)
	login := func() status.Login { return admin.Status().AppServers[0].Login }
	logIn(s, "sk-old")
	s.WaitReady()
	ctx, leave := e2e.ContextWithCancel(t)
	defer leave()
	s.BeginHanging(ctx)
	if now := login(); now.State != "fine" || now.Reason != "" {
		t.Errorf("a login that works is %+v", now)
	}
	s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: signedOut}, r.Header.Get("Authorization") == "Bearer sk-old"
	})
	if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "codex_unauthorized") {
		t.Errorf("%s %s", response.Status, text)
	}
	e2e.WaitFor(t, "the state of the login", func() bool {
		code, body := s.Readiness()
		return login().State == "signed_out" && strings.Contains(login().Reason, "codex login") && code == http.StatusServiceUnavailable && body.AppServer == "ready" && body.Login == "signed_out"
	})
	logIn(s, "sk-new")
	s.WaitReady()
	if got := authorization(s); got != "Bearer sk-new" {
		t.Errorf("the provider gets %q", got)
	}
	if now := login(); now.State != "fine" {
		t.Errorf("after another login: %+v", now)
	}
	s.WaitOpen(1) // the stream was not cut
}

// asked counts the requests that the provider of a login got.
func (a *account) asked() (n int) {
	for _, r := range a.model.Requests() {
		if r.Transport == e2e.Transport { // over a WebSocket Codex repeats a refused request over HTTP
			n++
		}
	}
	return n
}

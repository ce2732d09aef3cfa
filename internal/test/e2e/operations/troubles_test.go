package operations

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// loginTroubles are the troubles of a login, as in the table of docs/logins.md.
var loginTroubles = []struct {
	name  string // the first column
	state string
	cause loginstate.Cause
	begin func(s *e2e.Site) (end func(t *testing.T))
	// atStart means that the trouble begins before Codex starts, which keeps what it knows of its account.
	atStart bool
}{
	{"The provider is down.", "failing", loginstate.ProviderDown, func(s *e2e.Site) func(*testing.T) {
		return ending(s.Plan.Fail(planbackend.All, planbackend.Down()))
	}, false},
	{"The provider limits the requests of a minute.", "failing", loginstate.RateLimited, func(s *e2e.Site) func(*testing.T) {
		overHTTP := s.Plan.Fail(planbackend.Responses, planbackend.Status(http.StatusTooManyRequests))
		return ending(overHTTP, s.Plan.Fail(planbackend.Socket, planbackend.Status(http.StatusTooManyRequests)))
	}, false},
	{"The provider forbids the requests.", "failing", loginstate.Forbidden, func(s *e2e.Site) func(*testing.T) {
		return ending(s.Plan.Fail(planbackend.All, planbackend.HTML(http.StatusForbidden)))
	}, false},
	{"A company's proxy reads what is sent.", "failing", loginstate.TLSRefused, func(s *e2e.Site) func(*testing.T) {
		trusted, err := s.Plan.Intercept()
		if err != nil {
			s.T.Fatal(err)
		}
		return ending(trusted)
	}, false},
	{"The account has left the workspace.", "failing", loginstate.WorkspaceGone, func(s *e2e.Site) func(*testing.T) {
		return ending(s.Login.LeaveWorkspace())
	}, true},
	{"The login was revoked.", "signed_out", loginstate.Refused, func(s *e2e.Site) func(*testing.T) {
		s.Login.Revoke()
		return func(t *testing.T) {
			if err := s.Plan.AddLogin(planbackend.LoginOptions{}).Write(s.Home); err != nil { // somebody signs in
				t.Fatal(err)
			}
		}
	}, false},
}

// ending returns a function that calls all ends of a trouble.
func ending(ends ...func()) func(*testing.T) {
	return func(*testing.T) {
		for _, end := range ends {
			end()
		}
	}
}

// TestLoginTroubles lets a login get into each trouble, and out again. It checks that the client, the
// status, the readiness, the metric, the event and the two commands say the same, as the table of the
// docs does, and that the end of the trouble is noticed although nobody asks the model.
func TestLoginTroubles(t *testing.T) {
	e2e.WithLogin(t)
	page := e2e.ReadFile(t, filepath.Join("..", "..", "..", "..", "docs", "logins.md"))
	for _, trouble := range loginTroubles {
		t.Run(string(trouble.cause), func(t *testing.T) {
			ownTemp(t)
			s, witness := e2e.NewUnstarted(t), rand.Text()
			end := func(*testing.T) {}
			if trouble.atStart {
				end = trouble.begin(s)
			}
			s.Serve("")
			caddyfile := strings.Replace(s.WithMetrics(""), "admin off", "admin off\nmetrics\nevents {\non codex.login_changed witness "+witness+"\n}", 1)
			admin := s.WithAdmin(caddyfile)
			if !trouble.atStart {
				s.WaitReady()
				if served, said, _ := ask(s); !served {
					t.Fatal(said)
				}
				end = trouble.begin(s)
			}
			login := func() (state, cause, reason string) {
				l := admin.Status().AppServers[0].Login
				return l.State, l.Cause, l.Reason
			}
			var status, code int
			var text, readiness string
			e2e.WaitFor(t, "the trouble", func() bool {
				response, body := s.Post(e2e.ChatBody("say:ok", map[string]any{"model": "gpt-6-sol"}), nil)
				status, text = response.StatusCode, body
				code, readiness = s.Get("/readyz") // before a login that rests for a second is asked again
				state, cause, _ := login()
				return state == trouble.state && cause == string(trouble.cause) && code == http.StatusServiceUnavailable
			})
			_, _, reason := login()
			if reason != trouble.cause.Advice() {
				t.Errorf("the status says %q", reason)
			}
			said := gjson.Get(readiness, "reason").String()
			if code != http.StatusServiceUnavailable || gjson.Get(readiness, "login").String() != trouble.state || said != trouble.cause.Reason() {
				t.Errorf("/readyz: %d %s", code, readiness)
			}
			metrics := admin.Samples()
			id := admin.Status().AppServers[0].ID
			for _, want := range []string{
				fmt.Sprintf("codex_login_state{app_server=%q,state=%q}", id, trouble.state), fmt.Sprintf("codex_login_trouble{app_server=%q,cause=%q}", id, trouble.cause),
			} {
				if metrics[want] != 1 {
					t.Errorf("no %s", want)
				}
			}
			event := awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool { return data["cause"] == string(trouble.cause) })
			if event.data["state"] != trouble.state || event.data["reason"] != reason {
				t.Errorf("%+v", event)
			}
			output, err := runCommand("", "status", "--address", admin.Addr)
			if err != nil || !strings.Contains(output, reason) {
				t.Errorf("caddy codex status: %v\n%s", err, output)
			}
			output, err = runCommand("", "check", "--timeout", "20s", "--config", configFile(t, s.AppServer()))
			if err == nil || !strings.Contains(output, "failed: "+reason) {
				t.Errorf("caddy codex check: %v\n%s", err, output)
			}
			row := fmt.Sprintf("| %s | `%s`, `%s` | %d `%s` | 503: %s | %s |", trouble.name, trouble.state, trouble.cause, status, gjson.Get(text, "error.code"), said, strings.TrimPrefix(reason, said+"; "))
			if t.Log(row); !strings.Contains(page, row) {
				t.Error("this row is not in the docs")
			}
			end(t)
			begin := time.Now()
			s.WaitReady() // without a request for the model
			t.Logf("ready again after %s", time.Since(begin))
			e2e.WaitFor(t, "an answer", func() bool { served, _, _ := ask(s); return served })
			if state, cause, reason := login(); state != "fine" || cause+reason != "" {
				t.Errorf("afterwards the login is %s %s %s", state, cause, reason)
			}
			awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool { return data["state"] == "fine" && data["before"] != "" })
		})
	}
}

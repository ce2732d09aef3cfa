package logins

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
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

// TestSignInAgain: a refused login is used after a sign-in, without a restart, and turns go on.
func TestSignInAgain(t *testing.T) {
	e2e.OwnTemp(t)
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

// TestPlanOfALogin: the operator sees a login's plan, windows and credits. Codex's word counts: a
// spent login rests until Codex allows its use, whatever its windows say.
func TestPlanOfALogin(t *testing.T) {
	for allowed, wanted := range map[bool]int{false: 0, true: 3} {
		t.Run(fmt.Sprintf("allowed_%t", allowed), func(t *testing.T) {
			e2e.OwnTemp(t)
			e2e.WithLogin(t)
			plan, other := newAccount(t, nil), newAccount(t, nil)
			plan.Login.SetUse(planbackend.Use{Primary: 100, Secondary: 55, Spent: !allowed, Balance: "5.39"})
			spent := plan.model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
				return scriptedmodel.Script{End: spentPlan}, true
			})
			s := e2e.NewSite(t, "")
			witness := rand.Text()
			admin := s.WithAdmin(strings.Replace(s.Caddyfile(plan.block+other.block), "admin off", "admin off\nmetrics\nevents {\non codex.login_changed witness "+witness+"\n}", 1))
			s.WaitMembers(2)
			ask := func() {
				t.Helper()
				s.Served("say:ok")
			}
			used := plan.asked
			if allowed { // otherwise the provider's word is enough
				e2e.WaitFor(t, "the login to be used", func() bool { ask(); return used() > 0 })
			}
			e2e.WaitFor(t, "the login to be spent", func() bool {
				all := admin.Status().AppServers
				return all[0].Login.State == "spent" || all[1].Login.State == "spent"
			})
			id := ""
			for _, a := range admin.Status().AppServers {
				if a.Home != plan.Dir {
					continue
				}
				id = a.ID
				l := a.Login
				if l.State != "spent" || l.Plan != "pro" || l.Allowed == nil || *l.Allowed != allowed || l.ResetsAt.IsZero() || len(l.Meters) != 1 || len(l.Meters[0].Windows) != 2 ||
					l.Meters[0].Windows[0].Window != "5h" || l.Meters[0].Windows[0].UsedPercent != 100 || l.Meters[0].Windows[1].Window != "7d" || l.Meters[0].Windows[1].UsedPercent != 55 ||
					l.Credits == nil || l.Credits.Balance != "5.39" || !l.Credits.Has {
					t.Errorf("%+v", l)
				}
			}
			e := awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool { return data["app_server"] == id && data["state"] == "spent" })
			if e.data["state"] != "spent" || e.data["before"] != "unknown" || e.data["cause"] != "plan_spent" || !strings.HasPrefix(e.data["reason"].(string), "the plan is spent") || e.data["resets_at"] == "" {
				t.Errorf("%+v", e)
			}
			_, text := admin.Get("/metrics")
			for _, want := range []string{
				`codex_login_used_percent{app_server="` + id + `",limit="codex",window="5h"} 100`, `codex_login_used_percent{app_server="` + id + `",limit="codex",window="7d"} 55`,
				`codex_login_credits{app_server="` + id + `"} 5.39`, `codex_login_plan_info{app_server="` + id + `",plan="pro"} 1`, `codex_login_state{app_server="` + id + `",state="spent"} 1`,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("no %s", want)
				}
			}
			e2e.WaitFor(t, "the question for the plan", func() bool { return plan.Plan.Count(planbackend.Usage) > wanted/3 }) // if a turn was refused, that of the status is one
			spent()
			if allowed {
				askLimits(admin, id)
				e2e.WaitFor(t, "the login to be used again", func() bool { ask(); return used() >= wanted })
				return
			}
			for range 12 {
				ask()
			}
			if used() != wanted {
				t.Errorf("the login was asked %d times while it rests", used())
			}
		})
	}
}

// credit asks the site to spend a reset credit.
func (s *signInSite) credit(key, attempt string) (int, gjson.Result) {
	s.T.Helper()
	header := e2e.Bearer(key)
	if attempt != "" {
		header.Set("Idempotency-Key", attempt)
	}
	response := s.Do(http.MethodPost, "/codex/admin/credit?app_server="+s.id, nil, header)
	return response.StatusCode, gjson.Parse(s.Read(response))
}

// TestResetCredits spends the reset credits of a login by the page's route and by the command: the
// rest of a spent login ends at once, a repetition spends none, and nobody else can spend one.
func TestResetCredits(t *testing.T) {
	e2e.WithLogin(t)
	s := newAdminSite(t, func(s *e2e.Site) {
		s.Login.GrantReset("one", time.Now().Add(time.Hour))
		s.Login.GrantReset("two", time.Time{})
	})
	s.WaitReady()
	var left atomic.Int64 // the plan is spent as long as there are so many credits
	s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: spentPlan}, int64(len(s.Login.Resets())) == left.Load()
	})
	ask := func(want int) {
		t.Helper()
		if response, text := s.Post(e2e.ChatBody("say:served", nil), e2e.Bearer("k-ann")); response.StatusCode != want {
			t.Fatalf("%s: %s", response.Status, text)
		}
	}
	credits := func() int {
		e2e.WaitFor(t, "the credits", func() bool { return s.login().ResetCredits != nil }) // Codex may be late
		return s.login().ResetCredits.Available
	}
	command := func(input string, args ...string) string {
		output, err := runCommand(input, append(append([]string{"credit"}, args...), "--address", s.admin.Addr)...)
		if err != nil {
			output += err.Error()
		}
		return output
	}
	spend := func(credits int64) {
		left.Store(credits)
		s.Login.SetUse(planbackend.Use{Primary: 100, Spent: true})
		ask(http.StatusTooManyRequests)
		if now := s.login(); now.State != "spent" || now.RestsUntil.Before(time.Now()) {
			t.Errorf("the login is %+v", now)
		}
	}

	ask(http.StatusOK)
	if code, body := s.credit(adminKey, "a"); code != http.StatusOK || body.Get("outcome").Str != "nothing_to_reset" || body.Get("message").Str == "" {
		t.Errorf("nothing to reset: %d %s", code, body)
	}
	if output := command("", "--yes"); !strings.Contains(output, "no window of the plan") {
		t.Error(output)
	}
	output, err := runCommand("", "status", "--address", s.admin.Addr)
	if err != nil || !strings.Contains(output, "reset credits: 2, the first expires at 20") {
		t.Errorf("%v %s", err, output)
	}

	spend(2)
	for _, key := range []string{"", "k-ann", adminKey + "x"} {
		if code, body := s.credit(key, "a"); code != http.StatusUnauthorized {
			t.Errorf("the key %q: %d %s", key, code, body)
		}
	}
	if code, body := s.credit(adminKey, ""); code != http.StatusBadRequest || !strings.Contains(body.Raw, "Idempotency-Key") {
		t.Errorf("an attempt without a name: %d %s", code, body)
	}
	heal := s.Plan.Fail(planbackend.SpendCredit, planbackend.HTML(http.StatusServiceUnavailable))
	if code, body := s.credit(adminKey, "a"); code != http.StatusBadGateway || body.Get("error.code").Str != "reset_failed" || strings.Contains(body.Raw, "html") {
		t.Errorf("a back end that fails: %d %s", code, body)
	}
	if output := command("", "--yes"); !strings.Contains(output, "--attempt ") {
		t.Error(output)
	}
	heal()
	for _, input := range []string{"", "n\n"} {
		if output := command(input); !strings.Contains(output, "Spend one of 2 reset credits") || !strings.Contains(output, "no credit was spent") {
			t.Error(output)
		}
	}
	if n := credits(); n != 2 || s.login().State != "spent" {
		t.Fatalf("%d credits are left, and the login is %+v", n, s.login())
	}

	if code, body := s.credit(adminKey, "a"); code != http.StatusOK || body.Get("outcome").Str != "reset" {
		t.Errorf("reset: %d %s", code, body)
	}
	credits()
	if now := s.login(); now.State != "unknown" || now.ResetCredits.Available != 1 || now.Meters[0].Windows[0].UsedPercent != 0 {
		t.Errorf("after it the login is %+v", now)
	}
	ask(http.StatusOK)
	if code, body := s.credit(adminKey, "a"); code != http.StatusOK || body.Get("outcome").Str != "already_redeemed" || credits() != 1 {
		t.Errorf("the same once more: %d %s", code, body)
	}

	spend(1)
	if output := command("y\n", s.id); !strings.Contains(output, "A reset credit was spent") {
		t.Error(output)
	}
	ask(http.StatusOK)
	if code, body := s.credit(adminKey, "b"); code != http.StatusOK || body.Get("outcome").Str != "no_credit" || credits() != 0 {
		t.Errorf("none: %d %s", code, body)
	}
	if output := command("", "other"); !strings.Contains(output, "name one app-server by its id") || !strings.Contains(output, s.id) {
		t.Error(output)
	}
	_, text := s.Call(http.MethodGet, "/codex/status", nil, e2e.Bearer("k-ann"))
	if strings.Contains(text, "reset_credits") {
		t.Errorf("users see %s", text)
	}
}

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
		must.OK(s.T, err)
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
			e2e.OwnTemp(t)
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
			awaitAnswer(s)
			if state, cause, reason := login(); state != "fine" || cause+reason != "" {
				t.Errorf("afterwards the login is %s %s %s", state, cause, reason)
			}
			awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool { return data["state"] == "fine" && data["before"] != "" })
		})
	}
}

package logins

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// served checks that requests are served for a while.
func served(s *e2e.Site, what string) {
	s.T.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if served, said, _ := ask(s); !served {
			s.T.Errorf("%s: %s", what, said)
			return
		}
	}
}

// TestReplacedDuringAnOutage restarts an app-server and loads another configuration while the back end
// does not tell the account. The app-server that works goes on until its successor knows the account.
func TestReplacedDuringAnOutage(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	served(s, "at first")
	s.Plan.Fail(planbackend.Accounts, planbackend.Status(http.StatusInternalServerError))
	if response, text := admin.Call(http.MethodPost, "/codex/restart", nil, nil); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, text)
	}
	served(s, "while the successor does not know its account")
	s.Load(strings.Replace(s.Caddyfile(strings.Replace(s.AppServer(), "{\n", "{\nenv A B\n", 1)), "admin off", "admin "+admin.Addr, 1))
	served(s, "after a reload")
	if code, text := s.Get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if all := admin.Status().AppServers; len(all) != 2 {
		t.Errorf("%d app-servers, want the old one and the new one", len(all))
	}
	s.Plan.Heal()
	e2e.WaitFor(t, "the end of the old app-server", func() bool { return len(admin.Status().AppServers) == 1 && len(e2e.AppServers()) == 1 })
	served(s, "at last")
}

// TestSuccessorAfterTheEnd: a successor that waits for its account takes over from a killed one.
func TestSuccessorAfterTheEnd(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	served(s, "at first")
	heal := s.Plan.Fail(planbackend.Accounts, planbackend.Status(http.StatusInternalServerError))
	old := admin.Status().AppServers[0].PID
	for range 2 { // the second successor replaces the first one
		e2e.WaitFor(t, "the start of a successor", func() bool { // which the one before must have ended
			response, _ := admin.Call(http.MethodPost, "/codex/restart", nil, nil)
			return response.StatusCode == http.StatusOK
		})
		e2e.WaitFor(t, "two app-servers", func() bool { return len(e2e.AppServers()) == 2 })
	}
	if now := admin.Status().AppServers[0]; now.PID != old {
		t.Errorf("the app-server was replaced: %+v", now)
	}
	e2e.WaitFor(t, "the status to say why", func() bool {
		_, text := admin.Get("/codex/status")
		return strings.Contains(text, "a new app-server waits for its account: ")
	})
	mend := s.Plan.Fail(planbackend.Accounts, planbackend.Silent()) // the newest counts
	heal()
	if process, err := os.FindProcess(old); err != nil || process.Kill() != nil {
		t.Fatal(err)
	}
	e2e.WaitFor(t, "the successor", func() bool { now := admin.Status().AppServers[0]; return now.State == "ready" && now.PID != old })
	mend()
	awaitAnswer(s)
}

// TestRefusedAccount checks that a login is refused whose account the back end answers with a 401, if
// it cannot be renewed: clients are told so, and requests ask the back end no more.
func TestRefusedAccount(t *testing.T) {
	s := unrenewedSite(t, http.StatusBadRequest)
	e2e.WaitFor(t, "the refusal", func() bool { code, text := s.Get("/readyz"); return code == 503 && strings.Contains(text, "refuses") })
	e2e.WaitFor(t, "the second refusal", func() bool {
		before := s.Plan.Count(planbackend.Accounts)
		_, said, _ := ask(s)
		return strings.HasPrefix(said, "503 ") && strings.Contains(said, "codex_unauthorized") && s.Plan.Count(planbackend.Accounts) == before
	})
	before := s.Plan.Count(planbackend.Accounts)
	for range 10 {
		if _, said, _ := ask(s); !strings.Contains(said, "codex_unauthorized") {
			t.Error(said)
		}
	}
	if asked := s.Plan.Count(planbackend.Accounts) - before; asked > 9 { // one question of the app-server itself, in three attempts with their renewals
		t.Errorf("ten requests asked the back end %d times", asked)
	}
	s.Plan.Heal()
	s.WaitReady()
	served(s, "after that")
}

func postModel(s *e2e.Site, model string, want int) {
	s.T.Helper()
	if response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"model": model}), nil); response.StatusCode != want {
		s.T.Errorf("%s: %s %s", model, response.Status, text)
	}
}

// TestRefusedModel: a 401 for one model keeps only that model's turns from the logins.
func TestRefusedModel(t *testing.T) {
	accounts := []*account{newAccount(t, nil), newAccount(t, nil)}
	for _, a := range accounts {
		a.model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			return scriptedmodel.Script{End: signedOut}, r.Model == "gpt-6-sol"
		})
	}
	s := e2e.NewSite(t, accounts[0].block+accounts[1].block)
	s.WaitMembers(2)
	for range 3 {
		postModel(s, "gpt-6-sol", http.StatusServiceUnavailable)
		asked := accounts[0].asked() + accounts[1].asked()
		postModel(s, "gpt-6-sol", http.StatusServiceUnavailable)
		if more := accounts[0].asked() + accounts[1].asked() - asked; more > 0 {
			t.Errorf("the logins were asked %d times more for the refused model", more)
		}
		for range 4 {
			postModel(s, "gpt-6-luna", http.StatusOK)
		}
		if code, text := s.Get("/readyz"); code != http.StatusOK {
			t.Errorf("/readyz: %d %s", code, text)
		}
	}
}

// TestForbiddenModel checks that another login serves a model that a login may not use, and that the
// client is told so if no login may.
func TestForbiddenModel(t *testing.T) {
	accounts := []*account{newAccount(t, nil), newAccount(t, nil)}
	var all atomic.Bool
	for i, a := range accounts {
		a.model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
			no := scriptedmodel.HTTPError{Status: http.StatusForbidden, Code: "permission_denied", Message: "The project has no access to model gpt-6-sol."}
			return scriptedmodel.Script{End: no}, r.Model == "gpt-6-sol" && (i == 0 || all.Load())
		})
	}
	s := e2e.NewSite(t, accounts[0].block+accounts[1].block)
	s.WaitMembers(2)
	post := func(model string, want int) {
		t.Helper()
		postModel(s, model, want)
		if code, text := s.Get("/readyz"); code != http.StatusOK || strings.Contains(text, "failing") {
			t.Errorf("/readyz: %d %s", code, text)
		}
	}
	for range 6 {
		post("gpt-6-sol", http.StatusOK)
		post("gpt-6-luna", http.StatusOK)
	}
	all.Store(true)
	for range 3 {
		post("gpt-6-sol", http.StatusNotFound)
		post("gpt-6-luna", http.StatusOK)
	}
}

// TestLoginFile replaces the login of an app-server that works by another one.
func TestLoginFile(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	served(s, "at first")
	other := s.Plan.AddLogin(planbackend.LoginOptions{})
	must.OK(t, other.Write(s.Home))
	used := func() int {
		return s.Plan.Count(planbackend.Responses, other) + s.Plan.Count(planbackend.Socket, other)
	}
	e2e.WaitFor(t, "the use of the other login", func() bool { ask(s); return used() > 0 })
	must.OK(t, os.Remove(filepath.Join(s.Home, "auth.json")))
	e2e.WaitFor(t, "the missing login", func() bool {
		code, text := s.Get("/readyz")
		return code == http.StatusServiceUnavailable && admin.Status().AppServers[0].Login.Cause == "not_signed_in" && strings.Contains(text, "signed_out")
	})
	if _, said, _ := ask(s); !strings.Contains(said, "codex_unauthorized") {
		t.Error(said)
	}
	must.OK(t, s.Login.Write(s.Home))
	s.WaitReady()
	served(s, "at last")
}

// TestLogoutCommand checks that `caddy codex logout` and `restart` do what they say.
func TestLogoutCommand(t *testing.T) {
	e2e.OwnTemp(t)
	s, admin := newLoginSite(t)
	logIn(s, "sk-1")
	s.WaitReady()
	authorization(s)
	config := filepath.Join(t.TempDir(), "Caddyfile")
	e2e.WriteFile(t, config, strings.Replace(s.Caddyfile(s.AppServer()), "admin off", "admin "+admin.Addr, 1))
	before := admin.Status().AppServers[0]
	for _, args := range [][]string{{"restart"}, {"restart", before.ID}} {
		old := admin.Status().AppServers[0].PID
		if output, err := runCommand("", append(args, "--config", config)...); err != nil || !strings.Contains(output, before.ID) {
			t.Fatal(output, err)
		}
		e2e.WaitFor(t, "another process", func() bool { now := admin.Status().AppServers[0]; return now.State == "ready" && now.PID != old })
	}
	if _, err := runCommand("", "restart", "none", "--config", config); err == nil || !strings.Contains(err.Error(), "has no app-server none") {
		t.Error(err)
	}
	if output, err := runCommand("", "logout", "--config", config); err != nil || !strings.Contains(output, "Signed out") {
		t.Fatal(output, err)
	}
	e2e.WaitFor(t, "the missing login", func() bool {
		_, said, _ := ask(s)
		code, _ := s.Get("/readyz")
		return strings.Contains(said, "codex_unauthorized") && code == http.StatusServiceUnavailable
	})
	if _, err := os.Stat(filepath.Join(s.Home, "auth.json")); !os.IsNotExist(err) {
		t.Error("the login is still there: ", fmt.Sprint(err))
	}
}

// slow is how long a slow account back end takes. Codex waits a second longer.
const slow = 4 * time.Second

// outages are ways in which the account back end fails, with what the readiness says then.
var outages = []struct {
	name  string
	fault planbackend.Fault
	cause loginstate.Cause
}{
	{"all down", planbackend.Down(), loginstate.ProviderDown},
	{"down", planbackend.Down(), loginstate.ProviderDown},
	{"silent", planbackend.Silent(), loginstate.ProviderDown},
	{"slow", planbackend.Slow(slow), loginstate.ProviderDown},
	{"500", planbackend.Status(http.StatusInternalServerError), loginstate.ProviderDown},
	{"429", planbackend.Status(http.StatusTooManyRequests), loginstate.RateLimited},
	{"403 HTML", planbackend.HTML(http.StatusForbidden), loginstate.Forbidden},
}

// waitStarted waits until the app-server has started, with or without an account.
func waitStarted(s *e2e.Site) {
	s.T.Helper()
	e2e.WaitFor(s.T, "the app-server", func() bool { _, now := s.Readiness(); return now.AppServer == "ready" })
}

// ask asks the model once: whether that was answered, what was said, and how long it took.
func ask(s *e2e.Site) (served bool, said string, took time.Duration) {
	s.T.Helper()
	begin := time.Now()
	response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"model": "gpt-6-sol"}), nil)
	served = response.StatusCode == http.StatusOK && strings.Contains(text, `"content":"ok"`)
	return served, response.Status + " " + text, time.Since(begin)
}

// awaitAnswer waits until the model answers.
func awaitAnswer(s *e2e.Site) {
	s.T.Helper()
	e2e.WaitFor(s.T, "an answer", func() bool { served, _, _ := ask(s); return served })
}

// TestAccountOutage starts, reloads and kills a server while the back end's calls for the
// account fail. It says what is wrong, and serves soon after the end of that.
func TestAccountOutage(t *testing.T) {
	e2e.WithLogin(t)
	for _, outage := range outages {
		t.Run(outage.name, func(t *testing.T) {
			s := e2e.NewUnstarted(t)
			kinds := []planbackend.Kind{planbackend.Accounts, planbackend.Usage, planbackend.Credits}
			if strings.HasPrefix(outage.name, "all ") {
				kinds = []planbackend.Kind{planbackend.All}
			}
			for _, kind := range kinds {
				s.Plan.Fail(kind, outage.fault)
			}
			begin := time.Now()
			s.Serve("")
			waitStarted(s)
			ready := time.Since(begin)
			e2e.WaitFor(t, "the outage to be reported", func() bool {
				code, now := s.Readiness()
				late := outage.name == "slow" && time.Since(begin) > slow && code == http.StatusOK // it is not to be seen any more
				return late || code == http.StatusServiceUnavailable && now.Login == "failing" && now.Reason == outage.cause.Reason()
			})
			reported := time.Since(begin)
			_, said, took := ask(s)
			s.Load(s.Caddyfile(fmt.Sprintf("app_server %s app-server {\nhome %s\nenv A B\n}", e2e.CodexBinary, s.Home))) // another process
			waitStarted(s)
			s.Plan.Heal()
			begin = time.Now()
			awaitAnswer(s)
			answered := time.Since(begin)
			s.WaitReady()
			t.Logf("ready after %s, reported after %s; a request in the outage took %s: %.200s; after its end the first answer after %s, the account known after %s",
				ready, reported, took, said, answered, time.Since(begin))
		})
	}
}

// TestAccountAnswersAgain checks that an app-server whose question for the account got lost in an outage
// is replaced after it: Codex itself would wait for five seconds.
func TestAccountAnswersAgain(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	s.Plan.Fail(planbackend.Accounts, planbackend.Silent())
	s.Serve("")
	waitStarted(s)
	old := e2e.AppServers()
	e2e.WaitFor(t, "the outage to be reported", func() bool { code, _ := s.Readiness(); return code == http.StatusServiceUnavailable })
	s.Plan.Heal()
	begin := time.Now()
	awaitAnswer(s)
	t.Logf("served after %s", time.Since(begin))
	e2e.WaitFor(t, "the end of the old app-server", e2e.AllGone(old))
}

// TestOutageAfterThePlanWasTold: an outage is told while it lasts, though Codex repeats the plan.
func TestOutageAfterThePlanWasTold(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	s.WaitReady()
	e2e.WaitFor(t, "the use of the plan", func() bool { return len(admin.Status().AppServers[0].Login.Meters) > 0 })
	s.Plan.Fail(planbackend.All, planbackend.Status(http.StatusInternalServerError))
	s.Plan.Cut()
	e2e.WaitFor(t, "the outage to be noticed", func() bool {
		_, said, _ := ask(s)
		code, now := s.Readiness()
		return strings.Contains(said, "upstream_") && code == http.StatusServiceUnavailable && now.Login == "failing"
	})
	time.Sleep(6 * time.Second) // the first rest is over, and the back end was asked
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if code, now := s.Readiness(); code != http.StatusServiceUnavailable || now.Reason != loginstate.ProviderDown.Reason() {
			t.Fatalf("in the outage: %d %+v", code, now)
		}
	}
	s.Plan.Heal()
	s.WaitReady()
	served(s, "after it")
}

// TestSpentLoginIsReplaced checks that another login in the place of a spent one is used at once.
func TestSpentLoginIsReplaced(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	other := s.Plan.AddLogin(planbackend.LoginOptions{})
	defer s.Model.On(func(r scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: spentPlan}, r.Header.Get("Chatgpt-Account-Id") != other.Account
	})()
	s.Login.SetUse(planbackend.Use{Primary: 100, Spent: true})
	e2e.WaitFor(t, "the plan to be spent", func() bool {
		_, said, _ := ask(s)
		code, now := s.Readiness()
		return strings.Contains(said, "insufficient_quota") && code == http.StatusServiceUnavailable && now.Login == "spent"
	})
	must.OK(t, other.Write(s.Home))
	s.WaitReady()
	served(s, "with the other login")
}

// TestProcessWithoutAccount kills one of two processes of a login while the account back end fails. The
// other one knows the account, so it serves, and the login is fine.
func TestProcessWithoutAccount(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewPoolSite(t, "processes 2", 2)
	admin := s.WithAdmin(s.Caddyfile(s.Pool("processes 2")))
	served(s, "before")
	before := e2e.AppServers()
	s.Plan.Fail(planbackend.Accounts, planbackend.Status(http.StatusInternalServerError))
	must.OK(t, syscall.Kill(before[0], syscall.SIGKILL))
	e2e.WaitFor(t, "the next process to miss its account", func() bool {
		for _, one := range admin.Status().AppServers {
			if one.State == "ready" && one.Account != "" {
				return true
			}
		}
		return false
	})
	for range 10 {
		if ok, said, _ := ask(s); !ok {
			t.Error("beside a process without its account:", said)
		}
	}
	if code, now := s.Readiness(); code != http.StatusOK {
		t.Errorf("%d %+v", code, now)
	}
	s.Plan.Heal()
	s.WaitMembers(2)
}

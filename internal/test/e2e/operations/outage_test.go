package operations

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

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

// ask asks the model once. It returns whether that was answered, what was said, and how long
// it took.
func ask(s *e2e.Site) (served bool, said string, took time.Duration) {
	s.T.Helper()
	begin := time.Now()
	response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"model": "gpt-6-sol"}), nil)
	served = response.StatusCode == http.StatusOK && strings.Contains(text, `"content":"ok"`)
	return served, response.Status + " " + text, time.Since(begin)
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
			e2e.WaitFor(t, "an answer", func() bool {
				served, _, _ := ask(s)
				return served
			})
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
	e2e.WaitFor(t, "an answer", func() bool {
		served, _, _ := ask(s)
		return served
	})
	t.Logf("served after %s", time.Since(begin))
	e2e.WaitFor(t, "the end of the old app-server", e2e.AllGone(old))
}

// TestOutageAfterThePlanWasTold checks that an outage is told for as long as it lasts, although Codex has
// told the use of the plan before and repeats that.
func TestOutageAfterThePlanWasTold(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	admin := s.WithAdmin(s.Caddyfile(""))
	s.WaitReady()
	e2e.WaitFor(t, "the use of the plan", func() bool { return len(admin.Status().AppServers[0].Login.Windows) > 0 })
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
	if err := other.Write(s.Home); err != nil {
		t.Fatal(err)
	}
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
	if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
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

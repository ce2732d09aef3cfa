package operations

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

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
	if now := s.login(); now.State != "unknown" || now.ResetCredits.Available != 1 || now.Windows[0].UsedPercent != 0 {
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
	response := s.Do(http.MethodGet, "/codex/status", nil, e2e.Bearer("k-ann"))
	if text := s.Read(response); strings.Contains(text, "reset_credits") {
		t.Errorf("users see %s", text)
	}
}

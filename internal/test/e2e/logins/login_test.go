package logins

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// newLoginSite returns a site whose provider requires a login of the operator's home, which has only
// the provider. The site knows that the login is missing: a sign-in before that replaces codex twice.
func newLoginSite(t *testing.T) (s, admin *e2e.Site) {
	t.Helper()
	s = &e2e.Site{T: t, Home: t.TempDir(), Model: scriptedmodel.New(scriptedmodel.Options{}), Addr: e2e.FreeAddr(t)}
	s.URL = "http://" + s.Addr
	server := httptest.NewServer(s.Model)
	t.Cleanup(server.Close)
	t.Cleanup(s.Model.Close)
	e2e.WriteFile(t, filepath.Join(s.Home, "config.toml"), fmt.Sprintf(`model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = %q
requires_openai_auth = true
request_max_retries = 0
stream_max_retries = 0
`, server.URL+"/v1"))
	admin = s.WithAdmin(s.Caddyfile(s.AppServer()))
	e2e.WaitFor(t, "the missing login", func() bool { return admin.Status().AppServers[0].Login.State == "signed_out" })
	return s, admin
}

// logIn logs the operator in with codex login.
func logIn(s *e2e.Site, key string) {
	s.T.Helper()
	cmd := exec.CommandContext(e2e.Context(s.T), e2e.CodexBinary, "login", "--with-api-key")
	cmd.Stdin = strings.NewReader(key)
	cmd.Env = append(os.Environ(), "CODEX_HOME="+s.Home)
	if text, err := cmd.CombinedOutput(); err != nil {
		s.T.Fatalf("%v: %s", err, text)
	}
}

// authorization returns the Authorization header that the provider gets.
func authorization(s *e2e.Site) string {
	s.T.Helper()
	s.Served("say:ok")
	request, _ := s.Model.Last()
	return request.Header.Get("Authorization")
}

// TestLoginOfTheOperator: the required login of the operator is used as soon as it is there, and a
// later one after a restart. Without one, clients and operator learn whose matter that is.
func TestLoginOfTheOperator(t *testing.T) {
	e2e.OwnTemp(t)
	s, admin := newLoginSite(t)
	if reason := admin.Status().AppServers[0].Reason; !strings.Contains(reason, "CODEX_HOME="+s.Home) || strings.Contains(reason, "caddy-codex-run-") {
		t.Errorf("the reason is %q", reason)
	}
	var response *http.Response
	var text string
	e2e.WaitFor(t, "the end of a start", func() bool { // which may take longer than a request waits for it
		response, text = s.Post(e2e.ChatBody("say:ok", nil), nil)
		return !strings.Contains(text, "it has not answered for")
	})
	if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "codex_unauthorized") ||
		!strings.Contains(text, "not about your API key") || strings.Contains(text, s.Home) || response.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("without a login: %s %s", response.Status, text)
	}
	if code, body := s.Readiness(); code != http.StatusServiceUnavailable || !strings.Contains(body.Reason, "codex login") || body.Login != "signed_out" {
		t.Errorf("without a login: %d %+v", code, body)
	}
	logIn(s, "sk-one")
	s.WaitReady() // without a restart by hand
	if got := authorization(s); got != "Bearer sk-one" {
		t.Errorf("the provider gets %q", got)
	}
	logIn(s, "sk-two")
	e2e.Restart(s, admin)
	if got := authorization(s); got != "Bearer sk-two" {
		t.Errorf("after another login the provider gets %q", got)
	}
	pid := admin.Status().AppServers[0].PID
	s.Load(strings.Replace(s.Caddyfile("max_queue 3"), "admin off", "admin "+admin.Addr, 1))
	if now := admin.Status().AppServers[0]; now.PID != pid || now.State != "ready" {
		t.Errorf("a reload made %+v of process %d", now, pid)
	}
}

// TestRefreshedTokens: tokens that an app-server renews are stored in the home, for the next one.
func TestRefreshedTokens(t *testing.T) {
	e2e.OwnTemp(t)
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	must.OK(t, s.Login.Expire(s.Home))
	old := s.Login.Tokens()
	admin := s.WithAdmin(s.Caddyfile(""))
	s.WaitReady()
	access := strings.TrimPrefix(authorization(s), "Bearer ")
	var kept struct{ Tokens map[string]string }
	must.OK(t, json.Unmarshal([]byte(e2e.ReadFile(t, filepath.Join(s.Home, "auth.json"))), &kept))
	now := s.Login.Tokens()
	if now == old || kept.Tokens["refresh_token"] != now.Refresh || kept.Tokens["access_token"] != now.Access || access != now.Access {
		t.Errorf("the home has %v, and the provider gets %s", kept.Tokens, access)
	}
	e2e.Restart(s, admin)
	if got := authorization(s); got != "Bearer "+now.Access || s.Plan.Count(planbackend.Issuer) != 1 {
		t.Errorf("after %d renewals the provider gets %q", s.Plan.Count(planbackend.Issuer), got)
	}
}

// TestLoggedIn checks all that a site with a plan asks of its back end, at users' addresses.
func TestLoggedIn(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		for range 2 {
			response, text := s.Post(e2e.ChatBody("say:ok", map[string]any{"tools": []any{e2e.Tool("localSearch")}}), nil)
			if response.StatusCode != http.StatusOK || !strings.Contains(text, "ok") {
				t.Errorf("%s %s", response.Status, text)
			}
		}
		request, _ := s.Model.Last()
		if request.Transport != e2e.Transport || request.Header.Get("Chatgpt-Account-Id") != s.Login.Account {
			t.Errorf("the model was asked over %s with %v", request.Transport, request.Header)
		}
		e2e.CheckTools(t, request.Tools, "localSearch")
		if s.Plan.Count(planbackend.Models) == 0 || s.Plan.Count(planbackend.Issuer) > 0 {
			t.Errorf("the calls were %+v", s.Plan.Calls(planbackend.All))
		}
	})
}

package operations

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// newLoginSite returns a site whose provider requires a login of the operator's home,
// which has only the provider. config is added to the top of its config.toml, more to
// the app_server block.
func newLoginSite(t *testing.T, config, more string) (s, admin *e2e.Site) {
	t.Helper()
	s = &e2e.Site{T: t, Home: t.TempDir(), Model: scriptedmodel.New(scriptedmodel.Options{}), Addr: e2e.FreeAddr(t)}
	s.URL = "http://" + s.Addr
	server := httptest.NewServer(s.Model)
	t.Cleanup(server.Close)
	t.Cleanup(s.Model.Close)
	e2e.WriteFile(t, filepath.Join(s.Home, "config.toml"), fmt.Sprintf(`model_provider = "scripted"
%s
[model_providers.scripted]
name = "scripted"
base_url = %q
requires_openai_auth = true
request_max_retries = 0
stream_max_retries = 0
`, config, server.URL+"/v1"))
	admin = withAdminAt(s, s.Caddyfile(strings.Replace(s.AppServer(), "home ", more+"\nhome ", 1)))
	return s, admin
}

// withAdminAt loads a configuration with an admin endpoint.
func withAdminAt(s *e2e.Site, caddyfile string) *e2e.Site {
	s.T.Helper()
	admin := &e2e.Site{T: s.T, Addr: e2e.FreeAddr(s.T)}
	admin.URL = "http://" + admin.Addr
	s.Load(strings.Replace(caddyfile, "admin off", "admin "+admin.Addr, 1))
	s.T.Cleanup(func() { s.Load(s.Wrap("respond ok")) })
	return admin
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
	if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK {
		s.T.Fatal(response.Status, text)
	}
	request, _ := s.Model.Last()
	return request.Header.Get("Authorization")
}

// TestLoginOfTheOperator checks that a login of the operator is required, and used as soon
// as it is there, and a later one after a restart. Without one, clients and the operator
// are told whose matter that is.
func TestLoginOfTheOperator(t *testing.T) {
	ownTemp(t)
	s, admin := newLoginSite(t, "", "")
	e2e.WaitFor(t, "the missing login", func() bool { return admin.Status().AppServers[0].Login.State == "signed_out" })
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
	restart(s, admin)
	if got := authorization(s); got != "Bearer sk-two" {
		t.Errorf("after another login the provider gets %q", got)
	}
	pid := admin.Status().AppServers[0].PID
	s.Load(strings.Replace(s.Caddyfile("max_queue 3"), "admin off", "admin "+admin.Addr, 1))
	if now := admin.Status().AppServers[0]; now.PID != pid || now.State != "ready" {
		t.Errorf("a reload made %+v of process %d", now, pid)
	}
}

// TestRefreshedTokens checks that tokens which an app-server renews at its start are
// stored in the operator's home, and not renewed again by the next one. Without the
// backend of ChatGPT no start gets further.
func TestRefreshedTokens(t *testing.T) {
	ownTemp(t)
	old, fresh := token(time.Now().Add(-time.Hour)), token(time.Now().Add(time.Hour))
	refreshes := make(chan string, 64)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			RefreshToken string `json:"refresh_token"`
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&asked) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		refreshes <- asked.RefreshToken
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"id_token": fresh, "access_token": fresh, "refresh_token": "refresh-two"})
	}))
	t.Cleanup(issuer.Close)
	s, admin := newLoginSite(t, fmt.Sprintf("chatgpt_base_url = %q", issuer.URL+"/backend-api/"), "env CODEX_REFRESH_TOKEN_URL_OVERRIDE "+issuer.URL)
	auth := filepath.Join(s.Home, "auth.json")
	e2e.WriteFile(t, auth, fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"refresh-one","account_id":"acc"},"last_refresh":"2020-01-01T00:00:00Z"}`, old, old))
	e2e.WaitFor(t, "the renewed tokens", func() bool {
		var kept struct{ Tokens map[string]string }
		content, err := os.ReadFile(auth)
		return err == nil && json.Unmarshal(content, &kept) == nil && kept.Tokens["refresh_token"] == "refresh-two" && kept.Tokens["access_token"] == fresh
	})
	if got := e2e.Receive(t, "the renewal", refreshes); got != "refresh-one" {
		t.Errorf("%q was renewed", got)
	}
	starts := admin.Status().AppServers[0].Restarts
	e2e.WaitFor(t, "two more starts", func() bool { return admin.Status().AppServers[0].Restarts >= starts+2 })
	if len(refreshes) != 0 {
		t.Errorf("the next app-server renewed %q", <-refreshes)
	}
}

// token returns a token with the claims that Codex reads.
func token(expires time.Time) string {
	part := func(claims any) string {
		text, _ := json.Marshal(claims) // has texts and numbers only
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return part(map[string]any{"alg": "none"}) + "." + part(map[string]any{
		"exp": expires.Unix(), "email": "user@example.com",
		"https://api.openai.com/auth": map[string]any{"chatgpt_plan_type": "pro", "chatgpt_account_id": "acc", "chatgpt_user_id": "user"},
	}) + ".c2ln"
}

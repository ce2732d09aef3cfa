package logins

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// adminKey is the admin key of the sites.
const adminKey = "an-admin-key-of-a-test"

// signInSite is a site whose login the provider refuses.
type signInSite struct {
	*e2e.Site
	admin *e2e.Site
	id    string // of its app-server
}

// newSignInSite starts one. prepare lets the login be refused.
func newSignInSite(t *testing.T, prepare func(s *e2e.Site)) *signInSite {
	t.Helper()
	e2e.WithLogin(t)
	s := newAdminSite(t, prepare)
	e2e.WaitFor(t, "the login to be signed out", func() bool {
		_, text := s.Post(e2e.ChatBody("say:no", nil), e2e.Bearer("k-ann"))
		return strings.Contains(text, "codex_unauthorized") && s.login().State == "signed_out"
	})
	return s
}

// newAdminSite starts a site with an administrator. prepare may change its home before.
func newAdminSite(t *testing.T, prepare func(s *e2e.Site)) *signInSite {
	t.Helper()
	e2e.OwnTemp(t)
	s := &signInSite{Site: e2e.NewUnstarted(t)}
	prepare(s.Site)
	s.Serve("")
	s.admin = s.Site.WithAdmin(s.Caddyfile("api_key k-ann ann\ncors *\npage on\nadmin_key " + adminKey))
	s.id = s.admin.Status().AppServers[0].ID
	return s
}

func (s *signInSite) login() status.Login { return s.admin.Status().AppServers[0].Login }

// ask asks the site to sign in, or to cancel it, with headers in pairs.
func (s *signInSite) ask(method, key string, headers ...string) (int, gjson.Result) {
	s.T.Helper()
	header := http.Header{}
	if key != "" {
		header = e2e.Bearer(key)
	}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	response := s.Do(method, "/codex/admin/login?app_server="+s.id, nil, header)
	if got := response.Header.Get("Access-Control-Allow-Origin"); got != "" {
		s.T.Errorf("pages of %q may read the answer", got)
	}
	return response.StatusCode, gjson.Parse(s.Read(response))
}

// begin begins a sign-in and returns its code.
func (s *signInSite) begin() string {
	s.T.Helper()
	code, body := s.ask(http.MethodPost, adminKey)
	if code != http.StatusOK || body.Get("state").Str != "waiting" || body.Get("url").Str != planbackend.DeviceURL || body.Get("code").Str == "" {
		s.T.Fatalf("the sign-in began with %d %s", code, body)
	}
	return body.Get("code").Str
}

// awaitServed waits until the login is used.
func (s *signInSite) awaitServed(login *planbackend.Login) {
	s.T.Helper()
	e2e.WaitFor(s.T, "an answer with the new login", func() bool {
		response, text := s.Post(e2e.ChatBody("say:served", nil), e2e.Bearer("k-ann"))
		return response.StatusCode == http.StatusOK && strings.Contains(text, "served")
	})
	// Codex tells of the end of a sign-in later than it writes the login, which may serve before.
	e2e.WaitFor(s.T, "the end of the sign-in", func() bool {
		now := s.login()
		return now.State == "fine" && now.SignIn != nil && now.SignIn.State == status.SignInDone && now.SignIn.Code == ""
	})
	path := filepath.Join(s.Home, "auth.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		s.T.Errorf("the login in the home is %v, %v", info, err)
	}
	if token := gjson.Get(e2e.ReadFile(s.T, path), "tokens.refresh_token").Str; token != login.Tokens().Refresh {
		s.T.Error("the home has another login")
	}
}

// failed waits until a sign-in has failed, and returns the reason.
func (s *signInSite) failed() string {
	s.T.Helper()
	e2e.WaitFor(s.T, "the end of the sign-in", func() bool {
		now := s.login().SignIn
		return now != nil && now.State == status.SignInFailed && now.Code == "" && now.URL == ""
	})
	return s.login().SignIn.Reason
}

// TestSignIn signs a login in that was refused, or that there was not, by the page's route and by
// the admin API: it is used without a restart of Caddy, and the operator's home has it.
func TestSignIn(t *testing.T) {
	for name, prepare := range map[string]func(*e2e.Site){
		"refused": func(s *e2e.Site) { s.Login.Revoke() },
		"missing": func(s *e2e.Site) {
			must.OK(s.T, os.Remove(filepath.Join(s.Home, "auth.json")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignInSite(t, prepare)
			code := s.begin()
			if now := s.login().SignIn; now.State != status.SignInWaiting || now.Code != code || time.Until(now.ExpiresAt) < time.Minute {
				t.Errorf("the admin API says %+v", now)
			}
			s.Plan.Authorize(code, s.Login)
			s.awaitServed(s.Login)
		})
	}
}

// TestSignInDuringATurn checks that a turn of the app-server before a sign-in, whose login is refused
// after it, does not count against the new one, and is answered with that.
func TestSignInDuringATurn(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, "http")
	s := newAdminSite(t, func(*e2e.Site) {})
	s.WaitReady()
	s.Post(e2e.ChatBody("say:the account is known now", nil), e2e.Bearer("k-ann"))
	refuse := make(chan struct{})
	s.Plan.Fail(planbackend.Responses, planbackend.Held(refuse).For(1), s.Login)
	asked := s.Plan.Count(planbackend.Responses)
	answered := make(chan string, 1)
	go func() {
		_, text := s.Post(e2e.ChatBody("say:moved", nil), e2e.Bearer("k-ann"))
		answered <- text
	}()
	must.OK(t, s.Plan.Await(e2e.Context(t), planbackend.Responses, asked+1))
	other := s.Plan.AddLogin(planbackend.LoginOptions{})
	s.Plan.Authorize(s.begin(), other)
	s.awaitServed(other)
	e2e.WaitFor(t, "an answer for the new account", func() bool {
		s.Post(e2e.ChatBody("say:served", nil), e2e.Bearer("k-ann"))
		last, _ := s.Model.Last()
		return last.Header.Get("Chatgpt-Account-Id") == other.Account
	})
	s.Login.Revoke()
	close(refuse)
	if text := <-answered; !strings.Contains(text, "moved") {
		t.Error(text)
	}
	if now := s.login(); now.State != "fine" {
		t.Errorf("the login is %+v", now)
	}
}

// TestOneSignInForAHome checks that nobody signs in twice at once into one CODEX_HOME.
func TestOneSignInForAHome(t *testing.T) {
	e2e.WithLogin(t)
	s := newAdminSite(t, func(*e2e.Site) {})
	options := "api_key k-ann ann\npage on\nadmin_key " + adminKey
	for _, name := range []string{"ONE", "TWO"} {
		options += "\napp_server {\ncommand " + e2e.CodexBinary + " app-server\nhome " + s.Home + "\nenv OF " + name + "\n}"
	}
	admin := s.Site.WithAdmin(s.Caddyfile(options))
	e2e.WaitFor(t, "the end of the first configuration's app-server", func() bool { return len(admin.Status().AppServers) == 2 })
	all := admin.Status().AppServers
	s.id = all[0].ID
	s.begin()
	s.id = all[1].ID
	if code, body := s.ask(http.MethodPost, adminKey); code != http.StatusConflict || body.Get("error.code").Str != "sign_in_under_way" {
		t.Errorf("a second one: %d %s", code, body)
	}
	s.id = all[0].ID
	s.ask(http.MethodDelete, adminKey)
	s.id = all[1].ID
	s.begin()
}

// TestSignInNeedsTheRight checks that nobody begins or sees a sign-in without the admin key, and
// no page of another origin with it.
func TestSignInNeedsTheRight(t *testing.T) {
	s := newSignInSite(t, func(s *e2e.Site) { s.Login.Revoke() })
	for name, c := range map[string]struct {
		key     string
		headers []string
		want    int
	}{
		"no key":                  {"", nil, http.StatusUnauthorized},
		"an API key":              {"k-ann", nil, http.StatusUnauthorized},
		"another key":             {adminKey + "x", nil, http.StatusUnauthorized},
		"an API key twice":        {"k-ann", []string{"X-Api-Key", adminKey}, http.StatusUnauthorized},
		"in another header":       {"", []string{"X-Api-Key", adminKey}, http.StatusUnauthorized},
		"a page elsewhere":        {adminKey, []string{"Origin", "https://evil.example"}, http.StatusForbidden},
		"a newer browser":         {adminKey, []string{"Origin", s.URL, "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"a page that sends JSON":  {adminKey, []string{"Origin", "https://evil.example", "Content-Type", "application/json"}, http.StatusForbidden},
		"a page beside this site": {adminKey, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
	} {
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			if code, body := s.ask(method, c.key, c.headers...); code != c.want || body.Get("code").Exists() {
				t.Errorf("%s, %s: %d %s", method, name, code, body)
			}
		}
	}
	if code, body := s.ask(http.MethodOptions, "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); code < 400 {
		t.Errorf("a preflight is answered %d %s", code, body)
	}
	if n := s.Plan.Count(planbackend.DeviceCode); n != 0 || s.login().SignIn != nil {
		t.Fatalf("the issuer was asked %d times", n)
	}
	code := s.begin()
	for path, key := range map[string]string{"/codex/status": "k-ann", "/readyz": "", "/v1/usage": "k-ann"} {
		_, text := s.Call(http.MethodGet, path, nil, e2e.Bearer(key))
		if strings.Contains(text, code) || strings.Contains(text, "sign_in") {
			t.Errorf("%s tells of the sign-in: %s", path, text)
		}
	}
	if response := s.Do(http.MethodGet, "/codex/admin/status", nil, e2e.Bearer("k-ann")); response.StatusCode != http.StatusUnauthorized || s.Read(response) == "" {
		t.Errorf("an API key gets %s", response.Status)
	}
	_, text := s.Call(http.MethodGet, "/codex/admin/status", nil, e2e.Bearer(adminKey))
	if !strings.Contains(text, code) || !strings.Contains(text, `"pid"`) {
		t.Errorf("the administrator sees %s", text)
	}
	if code, body := s.ask(http.MethodDelete, adminKey); code != http.StatusOK || body.Get("state").Str != "failed" {
		t.Errorf("cancelled: %d %s", code, body)
	}
}

// TestSignInEnds checks every end of a sign-in but success: cancelled, expired, refused, and its
// administrator gone, after each of which the next one can begin. There is one at a time.
func TestSignInEnds(t *testing.T) {
	s := newSignInSite(t, func(s *e2e.Site) { s.Login.Revoke() })
	before := s.login()

	first := s.begin()
	if code, body := s.ask(http.MethodPost, adminKey); code != http.StatusConflict || body.Get("error.code").Str != "sign_in_under_way" {
		t.Errorf("a second one: %d %s", code, body)
	}
	response, text := s.admin.Call(http.MethodPost, "/codex/login?app_server="+s.id, nil, nil)
	if response.StatusCode != http.StatusConflict || strings.Contains(text, first) {
		t.Errorf("a second one by the admin API: %s %s", response.Status, text)
	}
	children := e2e.AppServers()
	response = s.admin.Do(http.MethodDelete, "/codex/login?app_server="+s.id, nil, nil)
	if text := s.Read(response); response.StatusCode != http.StatusOK || gjson.Get(text, "state").Str != "failed" || !strings.Contains(text, "cancelled") {
		t.Errorf("cancelled: %s %s", response.Status, text)
	}
	if left := e2e.AppServers(); len(left) != len(children)-1 {
		t.Errorf("of the programs %v there are %v", children, left)
	}

	s.Plan.Expire(s.begin())
	if why := s.failed(); !strings.Contains(why, "400") {
		t.Errorf("an expired code: %s", why)
	}
	for _, fault := range []planbackend.Fault{planbackend.Status(http.StatusInternalServerError), planbackend.HTML(http.StatusOK), planbackend.HTML(http.StatusServiceUnavailable), planbackend.Down()} {
		heal := s.Plan.Fail(planbackend.DeviceCode, fault)
		if code, body := s.ask(http.MethodPost, adminKey); code != http.StatusBadGateway || body.Get("error.code").Str != "sign_in_failed" || strings.Contains(body.Raw, "<html") {
			t.Errorf("an issuer that fails: %d %s", code, body)
		}
		heal()
		heal = s.Plan.Fail(planbackend.DeviceToken, fault)
		s.begin()
		if why := s.failed(); strings.Contains(why, "<html") {
			t.Errorf("an issuer that fails: %s", why)
		}
		heal()
	}
	heal := s.Plan.Fail(planbackend.Issuer, planbackend.HTML(http.StatusOK))
	s.Plan.Authorize(s.begin(), s.Login)
	s.failed()
	heal()
	if now := s.login(); now.State != before.State {
		t.Errorf("the login is %+v", now)
	}

	// Who has begun it goes before the code is there, and another one takes it over.
	heal = s.Plan.Fail(planbackend.DeviceCode, planbackend.Silent())
	ctx, leave := e2e.ContextWithCancel(t)
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/codex/admin/login?app_server="+s.id, nil)
	request.Header = e2e.Bearer(adminKey)
	asked := s.Plan.Count(planbackend.DeviceCode)
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(request)
		gone <- err
	}()
	must.OK(t, s.Plan.Await(e2e.Context(t), planbackend.DeviceCode, asked+1))
	leave()
	<-gone
	if now := s.login().SignIn; now.State != status.SignInStarting {
		t.Errorf("without its administrator it is %+v", now)
	}
	heal()
	if code, _ := s.ask(http.MethodDelete, adminKey); code != http.StatusOK {
		t.Error("it is not cancelled:", code)
	}
	code := s.begin()
	s.Plan.Authorize(code, s.Login)
	s.awaitServed(s.Login)
}

package planbackend_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

const accountsURL = "https://chatgpt.com/backend-api/wham/accounts/check"

// site is a back end with two logins and a client of it.
type site struct {
	*planbackend.Backend
	t          *testing.T
	model      *scriptedmodel.Server
	one, other *planbackend.Login
	client     *http.Client
}

func listen(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, model: scriptedmodel.New(scriptedmodel.Options{})}
	var err error
	if s.Backend, err = planbackend.Listen(planbackend.Options{Model: s.model}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	t.Cleanup(s.model.Close)
	s.one, s.other = s.AddLogin(planbackend.LoginOptions{}), s.AddLogin(planbackend.LoginOptions{})
	s.client = clientOf(t, s.Env())
	return s
}

// clientOf returns a client that uses the variables as Codex does.
func clientOf(t *testing.T, env []string) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}, ForceAttemptHTTP2: true}
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case "HTTPS_PROXY":
			proxy, err := url.Parse(value)
			if err != nil {
				t.Fatal(err)
			}
			transport.Proxy = http.ProxyURL(proxy)
		case "SSL_CERT_FILE":
			text, err := os.ReadFile(value)
			if err != nil || !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
				t.Fatalf("%s: %v", text, err)
			}
		}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: deadline, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// call calls the back end with a token, if it is not empty. The status is 0 if there is no
// answer.
func (s *site) call(ctx context.Context, method, url, token, body string) (status int, header http.Header, text string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return response.StatusCode, response.Header, string(content)
}

func (s *site) get(url string, login *planbackend.Login) (status int, header http.Header, text string) {
	s.t.Helper()
	return s.call(s.t.Context(), http.MethodGet, url, login.Tokens().Access, "")
}

// TestFaults checks what a call gets with each fault, that others are answered, and that
// the call is after it is healed.
func TestFaults(t *testing.T) {
	s := listen(t)
	for name, c := range map[string]struct {
		fault  planbackend.Fault
		status int
		body   string
	}{
		"down":     {planbackend.Down(), 0, ""},
		"status":   {planbackend.Status(500), 500, `"code":null`},
		"code":     {planbackend.Status(403, "a_code"), 403, `"code":"a_code"`},
		"page":     {planbackend.HTML(403), 403, "<html>"},
		"redirect": {planbackend.Redirect("https://elsewhere.example/"), 302, ""},
		"slow":     {planbackend.Slow(time.Millisecond), 200, "default_account_id"},
		"late":     {planbackend.Late(time.Millisecond), 200, "default_account_id"},
		"limit":    {planbackend.Status(429).RetryAfter(7 * time.Second), 429, "scripted 429"},
	} {
		t.Run(name, func(t *testing.T) {
			heal := s.Fail(planbackend.Accounts, c.fault, s.one)
			status, header, text := s.get(accountsURL, s.one)
			if status != c.status || !strings.Contains(text, c.body) {
				t.Errorf("%d %s", status, text)
			}
			if got := header.Get("Retry-After"); (got == "7") != (status == 429) {
				t.Errorf("Retry-After is %q", got)
			}
			if status, _, text := s.get(accountsURL, s.other); status != 200 {
				t.Errorf("the other login gets %d %s", status, text)
			}
			if status, _, text := s.get("https://chatgpt.com/backend-api/wham/usage", s.one); status != 200 {
				t.Errorf("another call gets %d %s", status, text)
			}
			heal()
			if status, _, text := s.get(accountsURL, s.one); status != 200 {
				t.Errorf("healed, it gets %d %s", status, text)
			}
		})
	}
}

// TestOutage checks that nothing is answered while all is down, and that a fault for a
// number of calls ends.
func TestOutage(t *testing.T) {
	s := listen(t)
	s.get(accountsURL, s.one) // has opened a connection
	s.Fail(planbackend.All, planbackend.Down())
	for range 3 {
		if status, _, text := s.get(accountsURL, s.one); status != 0 {
			t.Errorf("%d %s", status, text)
		}
	}
	s.Heal()
	s.Fail(planbackend.All, planbackend.Status(503).For(2))
	for _, want := range []int{503, 503, 200} {
		if status, _, text := s.get(accountsURL, s.one); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	s.Fail(planbackend.Accounts, planbackend.Silent())
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan int)
	go func() {
		status, _, _ := s.call(ctx, http.MethodGet, accountsURL, s.one.Tokens().Access, "")
		answered <- status
	}()
	if err := s.Await(ctx, planbackend.Accounts, s.Count(planbackend.Accounts)); err != nil {
		t.Error(err)
	}
	cancel()
	if status := <-answered; status != 0 {
		t.Errorf("a silent call is answered with %d", status)
	}
	if err := s.Await(ctx, planbackend.Usage, 1); !errors.Is(err, context.Canceled) {
		t.Error("a wait ends with", err)
	}
}

// TestTokens checks which tokens are taken.
func TestTokens(t *testing.T) {
	s := listen(t)
	renew := func(refresh string) (status int, text string) {
		body, err := json.Marshal(map[string]string{"grant_type": "refresh_token", "refresh_token": refresh})
		if err != nil {
			t.Fatal(err)
		}
		status, _, text = s.call(t.Context(), http.MethodPost, "https://auth.openai.com/oauth/token", "", string(body))
		return status, text
	}
	first := s.one.Tokens()
	if status, text := renew(first.Refresh); status != 200 || !strings.Contains(text, s.one.Tokens().Access) || s.one.Tokens() == first {
		t.Errorf("%d %s", status, text)
	}
	if status, text := renew(first.Refresh); status != 401 || !strings.Contains(text, "refresh_token_reused") {
		t.Errorf("a second time: %d %s", status, text)
	}
	if status, text := renew("unknown"); status != 401 || !strings.Contains(text, "refresh_token_invalidated") {
		t.Errorf("unknown: %d %s", status, text)
	}
	check := func(what, token, code string) {
		t.Helper()
		status, _, text := s.call(t.Context(), http.MethodGet, accountsURL, token, "")
		if code == "" && (status != 200 || !strings.Contains(text, s.one.Account)) || code != "" && (status != 401 || !strings.Contains(text, code)) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	check("the first token", first.Access, "")
	check("the second token", s.one.Tokens().Access, "")
	check("no token", "", "token_invalidated")
	check("another's token", "a.b.c", "token_invalidated")
	s.one.Refuse()
	check("refused", first.Access, "token_expired")
	if status, text := renew(s.one.Tokens().Refresh); status != 200 {
		t.Errorf("refused: %d %s", status, text)
	}
	if err := s.one.Expire(t.TempDir()); err != nil {
		t.Error(err)
	}
	check("ended", s.one.Tokens().Access, "token_expired")
	s.one.Revoke()
	if status, text := renew(s.one.Tokens().Refresh); status != 401 {
		t.Errorf("revoked: %d %s", status, text)
	}
	if n := s.Count(planbackend.Issuer); n != 5 {
		t.Errorf("%d renewals were asked for", n)
	}
}

// TestUnknown checks that what is not known is kept.
func TestUnknown(t *testing.T) {
	s := listen(t)
	s.get(accountsURL, s.one)
	s.Expect("/expected/")
	s.get("https://chatgpt.com/expected/path", s.one)
	for _, url := range []string{"https://chatgpt.com/other?a=b", "https://elsewhere.example/x", "https://chatgpt.com/other?a=b"} {
		if status, _, _ := s.get(url, s.one); status != 404 {
			t.Errorf("%s is answered with %d", url, status)
		}
	}
	if got := s.Unknown(); !slices.Equal(got, []string{"GET https://chatgpt.com/other?a=b", "GET https://elsewhere.example/x"}) {
		t.Errorf("unknown are %q", got)
	}
	if n, mine, others := s.Count(planbackend.Other), s.Count(planbackend.All, s.one), s.Count(planbackend.All, s.other); n != 4 || mine != 5 || others != 0 {
		t.Errorf("counted are %d, %d, %d", n, mine, others)
	}
}

// TestModelOfALogin checks that a login may have a model of its own.
func TestModelOfALogin(t *testing.T) {
	s := listen(t)
	own := scriptedmodel.New(scriptedmodel.Options{})
	defer own.Close()
	third := s.AddLogin(planbackend.LoginOptions{Model: own})
	for _, login := range []*planbackend.Login{third, s.one, third} {
		status, _, text := s.call(t.Context(), http.MethodPost, "https://chatgpt.com/backend-api/codex/responses", login.Tokens().Access, `{"model":"m","stream":true,"input":"say:Hello"}`)
		if status != 200 || !strings.Contains(text, "Hello") {
			t.Errorf("%d %s", status, text)
		}
	}
	if got := [2]int{s.model.Stats().Requests, own.Stats().Requests}; got != [2]int{1, 2} {
		t.Errorf("the models were asked %v times", got)
	}
}

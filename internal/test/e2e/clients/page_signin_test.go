package clients

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/browser"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestPageSignIn signs in on the page, after the provider has refused the login: with the admin
// key alone, by the code that the page shows, and without a restart of Caddy.
func TestPageSignIn(t *testing.T) {
	e2e.WithLogin(t)
	const adminKey = "an-admin-key-of-a-test"
	s := e2e.NewUnstarted(t)
	s.Login.Revoke()
	s.Serve("page on\nadmin_key " + adminKey)
	e2e.WaitFor(t, "the login to be signed out", func() bool {
		_, body := s.Readiness()
		_, text := s.Post(e2e.ChatBody("say:no", nil), nil)
		return body.Login == "signed_out" && strings.Contains(text, "codex_unauthorized")
	})
	tab := browser.Open(t, phone)
	tab.Go(s.URL + "/codex/#status")
	tab.WaitText("#servers .card", "Rests for")
	if found := browser.Eval[int](tab, `document.querySelectorAll('.sign-in').length`); found != 0 {
		t.Error("everybody may sign in")
	}
	tab.Click("#open-admin")
	tab.Type("not-" + adminKey + kb.Enter)
	tab.WaitText("#admin-problem", "does not know this admin key")
	tab.Type(adminKey + kb.Enter)
	tab.WaitText(".sign-in", "Sign in")
	tab.Click(".sign-in button")
	tab.WaitFor(`document.querySelector('.device-code')`)
	code := tab.Text(".device-code")
	if href := browser.Eval[string](tab, `document.querySelector('.sign-in a').href`); href != "https://auth.openai.com/codex/device" {
		t.Errorf("the code is to be entered at %s", href)
	}
	if kept := browser.Eval[string](tab, `JSON.stringify([localStorage, sessionStorage]) + document.cookie + location.href`); strings.Contains(kept, "admin-key") {
		t.Errorf("the admin key is in %s", kept)
	}
	if !s.Plan.Authorize(code, s.Login) {
		t.Fatalf("the code is %q", code)
	}
	tab.WaitFor(`!document.querySelector('.device-code')`)
	e2e.WaitFor(t, "an answer with the new login", func() bool {
		response, text := s.Post(e2e.ChatBody("say:served", nil), nil)
		return response.StatusCode == http.StatusOK && strings.Contains(text, "served")
	})
	tab.WaitText("#servers .card", "Fine")
	if token := gjson.Get(e2e.ReadFile(t, filepath.Join(s.Home, "auth.json")), "tokens.refresh_token").Str; token != s.Login.Tokens().Refresh {
		t.Error("the home has another login")
	}
	resetOnPage(s, tab, adminKey)
	tab.Click("#open-admin")
	tab.WaitFor(`!document.querySelector('.task')`)
	checkQuiet(t, s, tab, http.StatusUnauthorized, http.StatusServiceUnavailable)
}

// loseAnswer makes the page lose the first answer to an attempt to spend a credit.
const loseAnswer = `(() => {
  const send = fetch;
  let lost = false;
  window.fetch = async (url, options) => {
    const response = await send(url, options);
    if (lost || !String(url).includes('admin/credit')) return response;
    lost = true;
    throw new TypeError('lost');
  };
  return true;
})()`

// resetOnPage resets the windows of a plan for a credit on a page that has the admin key: not without
// a confirmation, and for one credit although the first answer is lost.
func resetOnPage(s *e2e.Site, tab *browser.Tab, adminKey string) {
	s.T.Helper()
	s.Login.GrantReset("one", time.Now().Add(time.Hour))
	s.Login.GrantReset("two", time.Time{})
	header := e2e.Bearer(adminKey)
	header.Set("Idempotency-Key", "spends nothing, but has the credits read")
	response := s.Do(http.MethodPost, "/codex/admin/credit?app_server="+tab.Text("#servers h3"), nil, header)
	if text := s.Read(response); !strings.Contains(text, "nothing_to_reset") {
		s.T.Fatal(response.Status, text)
	}
	s.Login.SetUse(planbackend.Use{Primary: 100})
	browser.Eval[bool](tab, loseAnswer)
	for _, text := range []string{"Reset the windows", "Keep it", "Reset the windows", "Spend it", "Reset the windows", "Spend it"} {
		tab.WaitFor(fmt.Sprintf(`[...document.querySelectorAll('.reset-credit button')].some((b) => b.textContent === %q && (b.click(), true))`, text))
	}
	tab.WaitText(".reset-credit", "reset by this attempt before")
	if left := s.Login.Resets(); len(left) != 1 {
		s.T.Errorf("the credits that are left are %v", left)
	}
}

package caddymodule

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/test/fakeserver"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// loginPool is a handler with several logins.
type loginPool struct {
	t       *testing.T
	logins  []fakeserver.Login
	c       *configuration
	handler *Handler
}

// newLoginPool starts a handler with logins of these kinds, until each of its processes is
// ready or has failed to start.
func newLoginPool(t *testing.T, kinds ...string) *loginPool {
	t.Helper()
	p := &loginPool{t: t}
	h := new(Handler)
	for _, kind := range kinds {
		login := fakeserver.NewLogin(t, kind)
		server := fakeServer(t, filepath.Base(string(login)))
		server.Home, server.Env[fakeserver.LoginEnv] = string(login), string(login)
		server.Conversations.Off = true
		p.logins = append(p.logins, login)
		h.AppServers = append(h.AppServers, server)
	}
	t.Cleanup(func() { // the last turn holds its app-server until its thread is unloaded
		must.Happen(t, "no app-server is left", func() bool { return len(supervisor.All()) == 0 })
		supervisor.Wait()
	})
	p.load(h)
	return p
}

// load provisions and starts a configuration, and cleans up the one before.
func (p *loginPool) load(h *Handler) {
	p.t.Helper()
	before := p.c
	p.c = provision(p.t, h)
	p.c.start(p.t)
	p.handler = p.c.handlers[0]
	if before != nil {
		before.cleanup()
	}
	must.Happen(p.t, "each app-server is ready or has failed", func() bool {
		for _, one := range p.handler.pool.Processes() {
			if s := one.Status(); s.State != appserver.StateReady && !s.Final {
				return false
			}
		}
		return true
	})
}

// ask sends a request, and checks that the answer has no URL. It asks again if an app-server that is
// started again has no state within the time of a request, as on a busy machine.
func (p *loginPool) ask(stream bool) (status int, header http.Header, body string) {
	p.t.Helper()
	text := fmt.Sprintf(`{"model":"plain","stream":%t,"messages":[{"role":"user","content":"hello"}]}`, stream)
	var w *httptest.ResponseRecorder
	must.Happen(p.t, "each app-server has started or failed", func() bool {
		var err error
		if w, err = ask(p.handler, http.MethodPost, "/v1/chat/completions", "", strings.NewReader(text)); err != nil {
			p.t.Fatal(err)
		}
		return !strings.Contains(w.Body.String(), "it has not answered for")
	})
	if strings.Contains(w.Body.String(), "http") {
		p.t.Errorf("the answer has an address: %s", w.Body)
	}
	return w.Code, w.Header(), w.Body.String()
}

func (p *loginPool) works(what string) {
	p.t.Helper()
	for i := range 6 {
		if status, _, body := p.ask(i%2 == 1); status != http.StatusOK || !strings.Contains(body, "it works") {
			p.t.Errorf("%s: %d %s", what, status, body)
		}
	}
}

// loginKinds are the states of a login in the tests of all combinations. The windows of a
// spent one reset in an hour. A missing one is signed out, like one that is refused.
var loginKinds = []string{"fine", "spent 3600", "refused", "dead", "missing"}

// combinations returns all sequences of n kinds or, with different, sets of n different ones.
func combinations(kinds []string, n int, different bool) (all [][]string) {
	if n == 0 {
		return [][]string{nil}
	}
	for i, kind := range kinds {
		rest := kinds
		if different {
			rest = kinds[i+1:]
		}
		for _, more := range combinations(rest, n-1, different) {
			all = append(all, append([]string{kind}, more...))
		}
	}
	return all
}

// TestLoginCombinations checks two logins in every combination of fine, spent, signed out and
// dead, and three different ones. A client does not notice the bad ones if one is fine, and each
// bad one is asked once at most. If none is fine, the client gets the failure that ends
// first: the reset of a plan, else the server's matter.
func TestLoginCombinations(t *testing.T) {
	for _, kinds := range slices.Concat(combinations(loginKinds, 2, false), combinations(loginKinds, 3, true)) {
		t.Run(strings.Join(kinds, "_"), func(t *testing.T) {
			p := newLoginPool(t, kinds...)
			var status int
			var code string
			switch {
			case slices.Contains(kinds, "fine"):
				p.works("one is fine")
			case slices.Contains(kinds, "spent 3600"):
				status, code = http.StatusTooManyRequests, "insufficient_quota"
			case slices.Contains(kinds, "refused"), slices.Contains(kinds, "missing"):
				status, code = http.StatusServiceUnavailable, "codex_unauthorized"
			default:
				status, code = http.StatusServiceUnavailable, "codex_not_ready"
			}
			for i := range 4 {
				if status == 0 {
					break
				}
				got, header, body := p.ask(i%2 == 1)
				if got != status || !strings.Contains(body, `"code":"`+code+`"`) || header.Get("X-Should-Retry") != "false" {
					t.Errorf("%d %v %s, want %d %s", got, header, body, status, code)
				}
				if header.Get("Retry-After") != "" || (status == http.StatusTooManyRequests) != strings.Contains(body, "(This limit resets in ") {
					t.Errorf("Retry-After %q with %d %s", header.Get("Retry-After"), got, body)
				}
			}
			for i, kind := range kinds {
				asked, most := p.logins[i].Asked(), 1
				if kind == "missing" || kind == "dead" {
					most = 0
				}
				if kind != "fine" && asked > most || kind == "fine" && asked == 0 {
					t.Errorf("the login %d, which is %s, was asked %d times", i+1, kind, asked)
				}
			}
			p.checkReadiness(status != 0)
		})
	}
}

func (p *loginPool) checkReadiness(unavailable bool) {
	p.t.Helper()
	w, err := ask(p.handler, http.MethodGet, "/readyz", "", nil)
	if err != nil || unavailable != (w.Code == http.StatusServiceUnavailable) {
		p.t.Errorf("/readyz: %v, %d %s", err, w.Code, w.Body)
	}
}

// TestLoginsComeBack checks that a spent and a refused login stay at rest over a restart and
// a reload, while clients notice nothing; that each is used again once it works; and how
// many requests they get until then: none if the provider has told before that the plan is spent.
func TestLoginsComeBack(t *testing.T) {
	p := newLoginPool(t, "spent 3600", "refused", "fine")
	h := &Handler{AppServers: p.handler.AppServers, MaxConcurrent: 63}
	spent, refused := p.logins[0], p.logins[1]
	check := func(what string, ofSpent, ofRefused int) {
		t.Helper()
		p.works(what)
		if spent.Asked() > ofSpent || refused.Asked() != ofRefused {
			t.Errorf("%s: the spent login was asked %d times, want at most %d; the refused one %d, want %d", what, spent.Asked(), ofSpent, refused.Asked(), ofRefused)
		}
	}
	check("at first", 1, 1)
	for _, process := range p.handler.pool.Processes() {
		before := process.Status().Replacements
		if err := process.Restart(); err != nil {
			t.Fatal(err)
		}
		must.Happen(t, "the process was replaced", func() bool { return process.Status().Replacements > before })
	}
	check("after a restart", 1, 1)
	p.load(h)
	check("after a reload", 1, 1)

	refused.Set(t, "fine")
	check("before somebody signs in", 1, 1)
	begin := time.Now()
	refused.SignIn(t)
	must.Happen(t, "the login that was refused is used again", func() bool { p.works("while somebody signs in"); return refused.Asked() > 1 })
	t.Logf("a login is used %s after somebody has signed in", time.Since(begin).Round(10*time.Millisecond))
	if state := p.handler.pool.Processes()[1].Login().Status().State; state != loginstate.Fine {
		t.Errorf("the login is %s", state)
	}
}

package faults

import (
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestOneOfTwoLogins checks that no request waits for a login that is limited, fails or is
// refused as long as there is another one, and that it is used again afterwards.
func TestOneOfTwoLogins(t *testing.T) {
	e2e.WithLogin(t)
	const limit = 10 * time.Second
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		bad, home := s.Plan.AddLogin(planbackend.LoginOptions{}), t.TempDir()
		must.OK(t, bad.Write(home))
		s.Load(s.Caddyfile(s.AppServer() + "\napp_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\n}\n"))
		s.WaitMembers(2)
		ask := func(name string) {
			t.Helper()
			began := time.Now()
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			took := time.Since(began)
			if response.StatusCode != http.StatusOK || !strings.Contains(text, name) || took >= limit {
				t.Errorf("%s: %s %s after %s", name, response.Status, text, took)
			}
			if took > 300*time.Millisecond {
				t.Logf("%s over %s: a request took %.2f s", name, e2e.Transport, took.Seconds())
			}
		}
		triedSince := func(began time.Time) (requests, calls int) {
			turns := map[string]bool{} // Codex goes on calling for a request that has moved
			for _, call := range s.Plan.Calls(planbackend.All) {
				if (call.Kind == planbackend.Responses || call.Kind == planbackend.Socket) && call.Login == bad && call.At.After(began) {
					calls++
					if !strings.Contains(call.Header.Get("X-Codex-Turn-Metadata"), `"turn_id":""`) { // as a thread in advance has it
						turns[call.Header.Get("Thread-Id")] = true
					}
				}
			}
			return len(turns), calls
		}
		faults := map[string]planbackend.Fault{
			"limited": planbackend.Status(429).RetryAfter(limit),
			"failing": planbackend.Status(500),
			"a page":  planbackend.HTML(403),
			"cut":     planbackend.Down(),
			"refused": planbackend.Status(401),
		}
		names := slices.Collect(maps.Keys(faults)) // in any order, but for the one that the operator has to mend
		names = append(slices.DeleteFunc(names, func(name string) bool { return name == "refused" }), "refused")
		for _, name := range names {
			fault, began := faults[name], time.Now()
			for _, kind := range asking {
				s.Plan.Fail(kind, fault, bad)
			}
			for range 10 {
				ask(name)
			}
			took := time.Since(began)
			tried, n := triedSince(began)
			t.Logf("%s over %s: %d requests tried the other login, with %d calls, in %s", name, e2e.Transport, tried, n, took)
			// A login rests for a second, then for two, four and so on.
			// Codex tries a refused token over each transport, and again once it is renewed.
			if most := 2 + int(math.Log2(1+took.Seconds())); tried > most || n > 10*most {
				t.Errorf("%s: %d requests of at most %d tried the other login, with %d calls", name, tried, most, n)
			}
			if name == "refused" {
				checkLeftAlone(t, s, bad)
			}
			s.Plan.Heal()
			if name != "refused" {
				e2e.WaitFor(t, "the login to be used again after "+name, func() bool {
					time.Sleep(500 * time.Millisecond) // a request costs more than the wait
					ask(name)
					last, _ := s.Model.Last()
					return last.Header.Get("Chatgpt-Account-Id") == bad.Account
				})
			}
		}
	})
}

// checkLeftAlone checks that requests do not try a login that rests. Its tokens may have been renewed
// after the refusal, on a busy machine late: then it is started with them, and tried once more.
func checkLeftAlone(t *testing.T, s *e2e.Site, login *planbackend.Login) {
	t.Helper()
	more := 0
	for range 2 {
		before := -1
		e2e.WaitFor(t, "what its app-server asks after the last turn", func() bool {
			last := before
			before = s.Plan.Count(planbackend.All, login)
			time.Sleep(time.Second)
			return before == last
		})
		for range 10 {
			s.Served("say:ok")
		}
		if more = s.Plan.Count(planbackend.All, login) - before; more == 0 {
			return
		}
	}
	t.Errorf("a login that rests was asked %d times", more)
}

// firstSign is how long the logins of besideSilence may be silent.
const firstSign = 18 * time.Second

// besideSilence serves two logins, left after a short silence. model answers for the second.
func besideSilence(t *testing.T) (s *e2e.Site, model *scriptedmodel.Server) {
	t.Helper()
	s, model = e2e.NewSite(t, ""), scriptedmodel.New(scriptedmodel.Options{})
	t.Cleanup(model.Close)
	second, home := s.Plan.AddLogin(planbackend.LoginOptions{Model: model}), t.TempDir()
	must.OK(t, second.Write(home))
	server := func(home string) string {
		return "app_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\n}\n"
	}
	s.Load(s.Caddyfile(server(s.Home) + server(home)))
	s.WaitMembers(2)
	return s, model
}

// TestSilentLogin checks that a request moves from a login whose provider gives no sign to another
// one, and that the next ones leave it alone. One that has begun to answer may be silent for longer.
func TestSilentLogin(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverOne(t, scriptedmodel.WebSocket)
	s, model := besideSilence(t)
	asked := func() int { return len(model.Requests()) + len(s.Model.Requests()) }
	ask := func(prompt string) time.Duration {
		began := time.Now()
		if response, text := s.Post(e2e.ChatBody(prompt, nil), nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s %s", response.Status, text)
		}
		return time.Since(began)
	}
	var slow sync.WaitGroup
	for range 2 { // of either login
		slow.Go(func() {
			if took := ask("reason:Hm.; delay=20s; chunk=4; say:okay"); took < 20*time.Second {
				t.Errorf("a slow answer took %s", took)
			}
		})
	}
	slow.Wait()
	if n := asked(); n != 2 {
		t.Errorf("the models were asked %d times for two answers", n)
	}
	model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: scriptedmodel.Hang{}}, true
	})
	before, slowest := len(model.Requests()), time.Duration(0)
	for range 8 {
		slowest = max(slowest, ask("say:ok"))
	}
	// Only the request that asked the silent login waited for it.
	if n := len(model.Requests()) - before; n != 1 || slowest < firstSign || slowest > firstSign+soon {
		t.Errorf("the silent login was asked %d times, and the slowest answer took %s", n, slowest)
	}
}

// TestSilenceOfTheOnlyLogin: an only login does not rest for silence, despite two app-servers.
func TestSilenceOfTheOnlyLogin(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewSite(t, "")
	server := strings.TrimSuffix(s.AppServer(), "}") + "processes 2\n}\n"
	admin := s.WithAdmin(s.Caddyfile(server + "idle_timeout 36s\n")) // twice the time for a sign
	s.WaitMembers(2)
	s.Model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: scriptedmodel.Hang{}}, true
	})
	if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("%s %s", response.Status, text)
	}
	for _, server := range admin.Status().AppServers {
		if server.Login.Reason != "" {
			t.Errorf("the login rests, since %s", server.Login.Reason)
		}
	}
}

// TestSilentLoginOfImpatientClients: those that leave count together, so that later ones avoid it.
func TestSilentLoginOfImpatientClients(t *testing.T) {
	e2e.WithLogin(t)
	s, model := besideSilence(t)
	model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
		return scriptedmodel.Script{End: scriptedmodel.Hang{}}, true
	})
	left := 0
	for range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), firstSign/2)
		if response, err := s.Chat(ctx, e2e.ChatBody("say:ok", nil), nil); err != nil {
			left++
		} else if text := s.Read(response); response.StatusCode != http.StatusOK {
			t.Errorf("%s %s", response.Status, text)
		}
		cancel()
	}
	if left < 2 || left > 3 {
		t.Errorf("%d clients have left", left)
	}
}

// TestRefusedTokens checks that no login is lost, and no request fails, when the back end refuses
// the tokens and the issuer takes longer to renew them than some of Codex's questions may.
func TestRefusedTokens(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		s := e2e.NewSite(t, "")
		s.Load(s.Caddyfile(s.AppServer()[:len(s.AppServer())-1] + "processes 2\n}\n"))
		s.WaitMembers(2)
		ask := func(name string) string {
			response, text := s.Post(e2e.ChatBody("say:"+name, nil), nil)
			if response.StatusCode == http.StatusOK && strings.Contains(text, name) {
				return ""
			}
			return response.Status + " " + text
		}
		s.Plan.Fail(planbackend.Issuer, planbackend.Late(6*time.Second))
		s.Login.Refuse()
		s.Plan.Cut()
		answers := make(chan string)
		for range 3 {
			go func() { answers <- ask("meanwhile") }()
		}
		for range 3 {
			if failed := <-answers; failed != "" {
				t.Error(failed)
			}
		}
		s.Plan.Heal()
		for range 3 {
			if failed := ask("afterwards"); failed != "" {
				t.Error(failed)
			}
		}
	})
}

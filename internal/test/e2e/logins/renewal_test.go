package logins

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// expiredSite returns a site that is not started, whose login has to be renewed at an issuer
// that spends the refresh token at once and answers later.
func expiredSite(t *testing.T, late time.Duration) *e2e.Site {
	t.Helper()
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	must.OK(t, s.Login.Expire(s.Home))
	s.Plan.Fail(planbackend.Issuer, planbackend.Late(late))
	return s
}

// checkRenewed: the login was renewed so often, and the newest tokens are in its home and serve.
func checkRenewed(t *testing.T, s *e2e.Site, renewals int) {
	t.Helper()
	served, said, took := ask(s)
	if n := s.Plan.Count(planbackend.Issuer); !served || n != renewals {
		t.Errorf("after %d renewals, want %d: %s", n, renewals, said)
	}
	if stored := e2e.ReadFile(t, s.Home+"/auth.json"); !strings.Contains(stored, s.Login.Tokens().Refresh) {
		t.Error("the home does not have the newest tokens")
	}
	t.Logf("served after %s", took)
}

// TestRenewalOfMany starts four app-servers with one login that has expired: one of them renews it.
func TestRenewalOfMany(t *testing.T) {
	s := expiredSite(t, time.Second)
	s.Serve("app_server " + e2e.CodexBinary + " app-server {\nhome " + s.Home + "\nprocesses 4\n}")
	s.WaitMembers(4)
	checkRenewed(t, s, 1)
}

// TestRenewalOutlivesTheStart lets the renewal take longer than the start timeout.
func TestRenewalOutlivesTheStart(t *testing.T) {
	s := expiredSite(t, 11*time.Second)
	s.Serve("")
	s.WaitReady()
	checkRenewed(t, s, 1)
}

// TestStopDuringTheRenewal stops a server in the middle of a renewal, whose tokens are not lost.
func TestStopDuringTheRenewal(t *testing.T) {
	s := expiredSite(t, 3*time.Second)
	s.Serve("")
	e2e.WaitFor(t, "the renewal", func() bool { return s.Plan.Count(planbackend.Issuer) == 1 })
	begin := time.Now()
	must.OK(t, caddy.Stop())
	e2e.WaitFor(t, "the tokens to be stored", func() bool {
		return strings.Contains(e2e.ReadFile(t, s.Home+"/auth.json"), s.Login.Tokens().Refresh)
	})
	t.Logf("stored after %s", time.Since(begin))
	s.Load(s.Caddyfile(""))
	s.WaitReady()
	checkRenewed(t, s, 1)
}

// TestEarlyRenewal: one of two app-servers renews a login before Codex would do so with each.
func TestEarlyRenewal(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	home := e2e.NewHome(t, s.Model, codexhome.Options{})
	login := home.Plan.AddLogin(planbackend.LoginOptions{Lifetime: 8 * time.Minute})
	must.OK(t, login.Write(home.Dir))
	s.Home, s.Plan, s.Login = home.Dir, home.Plan, login
	first := login.Tokens().Access
	s.Serve("app_server " + e2e.CodexBinary + " app-server {\nhome " + s.Home + "\nprocesses 2\n}")
	s.WaitMembers(2)
	e2e.WaitFor(t, "new tokens", func() bool {
		return login.Tokens().Access != first && strings.Contains(e2e.ReadFile(t, s.Home+"/auth.json"), login.Tokens().Refresh)
	})
	checkRenewed(t, s, 1)
}

// TestRevokedLogin: a revoked login is a 503 for all; later ones come at once, without the issuer.
func TestRevokedLogin(t *testing.T) {
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	s.Login.Revoke()
	s.Serve("")
	e2e.WaitFor(t, "the refusal", func() bool { _, said, _ := ask(s); return strings.Contains(said, "codex_unauthorized") })
	begin := time.Now()
	var renewals int
	for i := range 5 {
		at := time.Now()
		response, text := s.Post(e2e.ChatBody("say:no", map[string]any{"model": "gpt-6-sol"}), nil)
		if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "codex_unauthorized") {
			t.Errorf("%s %s", response.Status, text)
		}
		if i == 0 {
			renewals = s.Plan.Count(planbackend.Issuer)
			t.Logf("refused after %s and %d renewals: %s %s", time.Since(at), renewals, response.Status, text)
		}
	}
	if more := s.Plan.Count(planbackend.Issuer) - renewals; more > 1 {
		t.Errorf("the issuer was asked %d times more", more)
	}
	t.Logf("all refused after %s", time.Since(begin))
}

// unrenewedSite returns a site with a refused login, whose renewals the issuer answers with status.
func unrenewedSite(t *testing.T, status int) *e2e.Site {
	t.Helper()
	e2e.WithLogin(t)
	s := e2e.NewUnstarted(t)
	s.Plan.Fail(planbackend.Accounts, planbackend.Status(http.StatusUnauthorized))
	s.Plan.Fail(planbackend.Issuer, planbackend.Status(status))
	s.Serve("")
	return s
}

// TestIssuerFails lets the issuer fail for a login that has to be renewed: nobody has to sign in again.
func TestIssuerFails(t *testing.T) {
	s := unrenewedSite(t, http.StatusInternalServerError)
	waitStarted(s)
	e2e.WaitFor(t, "three renewals", func() bool {
		_, said, _ := ask(s)
		_, now := s.Readiness()
		if strings.Contains(said, "codex_unauthorized") || now.Login == "signed_out" {
			t.Fatal(said, now)
		}
		return s.Plan.Count(planbackend.Issuer) >= 3
	})
	s.Plan.Heal()
	s.WaitReady()
	served(s, "after that")
}

// TestRefusedUnderLoad lets the back end refuse two app-servers' tokens under load. Some clients
// leave, one of the two is killed, both are replaced, and the issuer answers later than Codex waits
// for the user's settings. The refresh token is spent once, and the new ones are stored.
func TestRefusedUnderLoad(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBothSampled(t, func(t *testing.T, all bool) {
		lates := []time.Duration{3 * time.Second}
		if all {
			lates = append(lates, 12*time.Second)
		}
		for _, late := range lates {
			t.Run(late.String(), func(t *testing.T) {
				s := e2e.NewUnstarted(t)
				options := func(generation int) string {
					return fmt.Sprintf("app_server %s app-server {\nhome %s\nprocesses 2\nenv GENERATION %d\n}", e2e.CodexBinary, s.Home, generation)
				}
				s.Serve(options(1))
				s.WaitMembers(2)
				ctx, stop := context.WithCancel(t.Context())
				var clients sync.WaitGroup
				for i := range 6 {
					clients.Go(func() { askAndLeave(ctx, s, time.Duration(i)*time.Second) })
				}
				s.Plan.Fail(planbackend.Issuer, planbackend.Late(late))
				s.Login.Refuse()
				e2e.WaitFor(t, "a renewal", func() bool { return s.Plan.Count(planbackend.Issuer) > 0 })
				if pids := e2e.AppServers(); len(pids) > 0 {
					_ = syscall.Kill(pids[0], syscall.SIGKILL)
				}
				s.Load(s.Caddyfile(options(2)))
				e2e.WaitFor(t, "new tokens", func() bool {
					return strings.Contains(e2e.ReadFile(t, s.Home+"/auth.json"), s.Login.Tokens().Refresh)
				})
				stop()
				clients.Wait()
				s.WaitMembers(2)
				awaitAnswer(s)
				checkRenewed(t, s, 1)
			})
		}
	})
}

// askAndLeave asks until ctx ends, ten times a second at most, and leaves after patience, if not 0.
func askAndLeave(ctx context.Context, s *e2e.Site, patience time.Duration) {
	for ctx.Err() == nil {
		asked, leave := context.WithCancel(ctx)
		if patience > 0 {
			asked, leave = context.WithTimeout(ctx, patience)
		}
		if response, err := s.Chat(asked, e2e.ChatBody("say:ok", map[string]any{"model": "gpt-6-sol"}), nil); err == nil {
			_ = response.Body.Close() // it may have failed: only the login counts
		}
		leave()
		time.Sleep(100 * time.Millisecond)
	}
}

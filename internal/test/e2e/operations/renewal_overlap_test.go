package operations

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestRefusedUnderLoad lets the back end refuse the tokens of two app-servers under load, whose
// clients partly leave, while one of them is killed and both are replaced. The issuer spends the
// refresh token at once and answers later than Codex waits within a question for the user's settings.
// The token is spent once, and the new ones are stored.
func TestRefusedUnderLoad(t *testing.T) {
	for _, late := range []time.Duration{3 * time.Second, 12 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			e2e.WithLogin(t)
			e2e.OverBoth(t, func(t *testing.T) {
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
				e2e.WaitFor(t, "an answer", func() bool {
					served, _, _ := ask(s)
					return served
				})
				checkRenewed(t, s, 1)
			})
		})
	}
}

// askAndLeave asks again and again, ten times a second at most, until ctx ends. A patience leaves each
// request after that time; 0: none.
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

package operations

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestPlanOfALogin checks that the operator sees the plan of a login, its windows and
// credits, and that Codex's word on it counts: a spent login rests as long as Codex does not
// allow its use, and is tried at once when Codex does, whatever its windows say.
func TestPlanOfALogin(t *testing.T) {
	for allowed, wanted := range map[bool]int{false: 1, true: 3} {
		t.Run(fmt.Sprintf("allowed_%t", allowed), func(t *testing.T) {
			ownTemp(t)
			e2e.WithLogin(t)
			plan, other := newAccount(t, nil), newAccount(t, nil)
			plan.Login.SetUse(planbackend.Use{Primary: 100, Secondary: 55, Spent: !allowed, Balance: "5.39"})
			spent := plan.model.On(func(scriptedmodel.Request) (scriptedmodel.Script, bool) {
				return scriptedmodel.Script{End: spentPlan}, true
			})
			s := e2e.NewSite(t, "")
			witness := rand.Text()
			admin := s.WithAdmin(strings.Replace(s.Caddyfile(plan.block+other.block), "admin off", "admin off\nmetrics\nevents {\non codex.login_changed witness "+witness+"\n}", 1))
			s.WaitMembers(2)
			ask := func() {
				t.Helper()
				if response, text := s.Post(e2e.ChatBody("say:ok", nil), nil); response.StatusCode != http.StatusOK {
					t.Error(response.Status, text)
				}
			}
			used := plan.asked
			e2e.WaitFor(t, "the login to be used", func() bool { ask(); return used() > 0 })
			id := ""
			for _, a := range admin.Status().AppServers {
				if a.Home != plan.Dir {
					continue
				}
				id = a.ID
				l := a.Login
				if l.State != "spent" || l.Plan != "pro" || l.Allowed == nil || *l.Allowed != allowed || l.ResetsAt.IsZero() || len(l.Windows) != 2 ||
					l.Windows[0].Window != "5h" || l.Windows[0].UsedPercent != 100 || l.Windows[1].Window != "7d" || l.Windows[1].UsedPercent != 55 ||
					l.Credits == nil || l.Credits.Balance != "5.39" || !l.Credits.Has {
					t.Errorf("%+v", l)
				}
			}
			e := awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool { return data["app_server"] == id && data["state"] == "spent" })
			if e.data["state"] != "spent" || e.data["before"] != "unknown" || e.data["cause"] != "plan_spent" || !strings.HasPrefix(e.data["reason"].(string), "the plan is spent") || e.data["resets_at"] == "" {
				t.Errorf("%+v", e)
			}
			_, text := admin.Get("/metrics")
			for _, want := range []string{
				`codex_login_used_percent{app_server="` + id + `",window="5h"} 100`, `codex_login_used_percent{app_server="` + id + `",window="7d"} 55`,
				`codex_login_credits{app_server="` + id + `"} 5.39`, `codex_login_plan_info{app_server="` + id + `",plan="pro"} 1`, `codex_login_state{app_server="` + id + `",state="spent"} 1`,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("no %s", want)
				}
			}
			e2e.WaitFor(t, "the question for the plan", func() bool { return plan.Plan.Count(planbackend.Usage) >= 2 }) // that of the status is one
			spent()
			if allowed {
				e2e.WaitFor(t, "the login to be used again", func() bool { ask(); return used() >= wanted })
				return
			}
			for range 12 {
				ask()
			}
			if used() != wanted {
				t.Errorf("the login was asked %d times while it rests", used())
			}
		})
	}
}

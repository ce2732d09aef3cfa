package operations

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// planBackend is the part of ChatGPT's backend that Codex asks for the account and its plan.
type planBackend struct {
	allowed atomic.Bool  // the plan may be used
	asked   atomic.Int64 // questions for the use of the plan
}

func (b *planBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	window := func(percent, seconds, in int) map[string]any {
		return map[string]any{"used_percent": percent, "limit_window_seconds": seconds, "reset_after_seconds": in, "reset_at": time.Now().Unix() + int64(in)}
	}
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/wham/accounts/check"):
		answer = map[string]any{
			"accounts": []any{map[string]any{
				"id": "acc", "structure": "personal", "plan_type": "pro",
				"workspace_backend_origin": "https://127.0.0.1:1", "account_routing_override": "NO_CONSTRAINT",
			}},
			"account_ordering": []any{"acc"}, "default_account_id": "acc",
		}
	case strings.HasSuffix(r.URL.Path, "/wham/usage"):
		b.asked.Add(1)
		allowed := b.allowed.Load()
		answer = map[string]any{
			"plan_type": "pro", "account_id": "acc", "user_id": "user",
			"rate_limit": map[string]any{"allowed": allowed, "limit_reached": !allowed, "primary_window": window(100, 18000, 3600), "secondary_window": window(55, 604800, 90000)},
			"credits":    map[string]any{"has_credits": true, "unlimited": false, "balance": "5.39"},
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the other end may have left
}

// newChatGPTAccount returns a login with a plan of ChatGPT.
func newChatGPTAccount(t *testing.T, backend *planBackend) *account {
	t.Helper()
	a := &account{model: scriptedmodel.New(scriptedmodel.Options{})}
	server, chatgpt := httptest.NewServer(a.model), httptest.NewServer(backend)
	t.Cleanup(server.Close)
	t.Cleanup(a.model.Close)
	t.Cleanup(chatgpt.Close)
	home := t.TempDir()
	e2e.WriteFile(t, filepath.Join(home, "config.toml"), fmt.Sprintf(`model_provider = "scripted"
chatgpt_base_url = %q
[model_providers.scripted]
name = "scripted"
base_url = %q
requires_openai_auth = true
request_max_retries = 0
stream_max_retries = 0
`, chatgpt.URL+"/backend-api/", server.URL+"/v1"))
	fresh := token(time.Now().Add(time.Hour))
	e2e.WriteFile(t, filepath.Join(home, "auth.json"), fmt.Sprintf(
		`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"r","account_id":"acc"},"last_refresh":%q}`,
		fresh, fresh, time.Now().UTC().Format(time.RFC3339)))
	a.block = "app_server " + e2e.CodexBinary + " app-server {\nhome " + home + "\nconversations off\n}\n"
	return a
}

// TestPlanOfALogin checks that the operator sees the plan of a login, its windows and
// credits, and that Codex's word on it counts: a spent login rests as long as Codex does not
// allow its use, and is tried at once when Codex does, whatever its windows say.
func TestPlanOfALogin(t *testing.T) {
	for allowed, wanted := range map[bool]int{false: 1, true: 3} {
		t.Run(fmt.Sprintf("allowed_%t", allowed), func(t *testing.T) {
			ownTemp(t)
			e2e.OverOne(t, scriptedmodel.HTTP) // the home of the login with a plan is for it alone
			backend := new(planBackend)
			backend.allowed.Store(allowed)
			plan, other := newChatGPTAccount(t, backend), newAccount(t, nil)
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
				if a.Login.Plan == "" {
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
			e := awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool { return data["app_server"] == id })
			if e.data["state"] != "spent" || e.data["before"] != "unknown" || e.data["reason"] != "the plan is spent" || e.data["resets_at"] == "" {
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
			e2e.WaitFor(t, "the question for the plan", func() bool { return backend.asked.Load() >= 2 }) // that of the status is one
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

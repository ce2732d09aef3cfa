package operations

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// TestEventsOfUse provokes the events that come before something ends: of a key, of a plan's
// windows, and of a login that has to be renewed. Each threshold is told once.
func TestEventsOfUse(t *testing.T) {
	ownTemp(t)
	e2e.WithLogin(t)
	plan := newAccount(t, nil)
	plan.Login.SetUse(planbackend.Use{Primary: 85, Secondary: 100})
	keys := newKeyFile(t, map[string]string{"sk-ann": "user ann\nrequests 5 24h"})
	s, witness := e2e.NewUnstarted(t), rand.Text()
	var on strings.Builder
	for _, name := range []string{"key_used", "plan_used", "login_changed"} {
		fmt.Fprintf(&on, "on codex.%s witness %s\n", name, witness)
	}
	config := strings.Replace(s.Caddyfile(plan.block+"api_keys_file "+keys.path), "admin off", "admin off\nevents {\n"+on.String()+"}", 1)
	s.Serve(plan.block)
	admin := s.WithAdmin(config)
	s.WaitReady()

	passed := func(name string, percent int, more string) map[string]any {
		t.Helper()
		return awaitEvent(t, witness, "codex."+name, func(data map[string]any) bool {
			return data["percent"] == percent && strings.Contains(fmt.Sprint(data), more)
		}).data
	}
	for i := range 6 {
		want := http.StatusOK
		if i == 5 {
			want = http.StatusTooManyRequests
		}
		if status, text := statusOf(s, "sk-ann", nil); status != want {
			t.Fatal(i, status, text)
		}
	}
	ahead := func(data map[string]any) bool {
		at, err := time.Parse(time.RFC3339, data["resets_at"].(string))
		return err == nil && at.After(time.Now())
	}
	for percent, used := range map[int]int64{80: 4, 100: 5} {
		data := passed("key_used", percent, "")
		if data["key"] != fmt.Sprintf("%x", "sk-ann") || data["user"] != "ann@"+s.Addr || data["unit"] != "requests" || data["window"] != "24h" ||
			data["limit"] != int64(5) || data["used"] != used || data["remaining"] != 5-used || !ahead(data) || data["app_server"] != nil {
			t.Errorf("%v", data)
		}
	}

	id := admin.Status().AppServers[0].ID
	for percent, window := range map[int]string{80: "5h", 100: "7d"} {
		data := passed("plan_used", percent, window)
		if !ahead(data) || data["app_server"] != id || data["plan"] != "pro" {
			t.Errorf("%v", data)
		}
	}

	keys.write(map[string]string{"sk-eve": ""})
	plan.answer(signedOut)
	e2e.WaitFor(t, "the key of eve", func() bool { status, _ := statusOf(s, "sk-eve", nil); return status != http.StatusUnauthorized })
	awaitEvent(t, witness, "codex.login_changed", func(data map[string]any) bool {
		return data["state"] == "signed_out" && data["app_server"] == id && strings.Contains(data["reason"].(string), "codex login")
	})
	told := make(map[string]int)
	for _, e := range eventsOf(witness) {
		told[e.name]++
	}
	if told["codex.key_used"] != 2 || told["codex.plan_used"] != 2 {
		t.Errorf("%v", told)
	}
}

package operations

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
)

// webhookReceiver keeps the names and data of the events that are posted to it.
type webhookReceiver struct {
	sync.Mutex
	events []string
}

func (wr *webhookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event caddy.CloudEvent
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wr.Lock()
	defer wr.Unlock()
	wr.events = append(wr.events, event.Type+string(event.Data))
}

// take removes one such event, and reports whether there was one.
func (wr *webhookReceiver) take(event string) bool {
	wr.Lock()
	defer wr.Unlock()
	i := slices.Index(wr.events, event)
	if i >= 0 {
		wr.events = slices.Delete(wr.events, i, i+1)
	}
	return i >= 0
}

// TestEventsOfUse provokes the events that come before something ends: of a key, of a plan's
// windows, and of a login that has to be renewed. Each threshold is told once, also to a webhook.
func TestEventsOfUse(t *testing.T) {
	ownTemp(t)
	e2e.WithLogin(t)
	plan := newAccount(t, nil)
	plan.Login.SetUse(planbackend.Use{Primary: 85, Secondary: 100})
	keys := newKeyFile(t, map[string]string{"sk-ann": "user ann\nrequests 5 24h"})
	s, witness := e2e.NewUnstarted(t), rand.Text()
	posted := new(webhookReceiver)
	receiver := httptest.NewServer(posted)
	defer receiver.Close()
	var on strings.Builder
	for _, name := range []string{"key_used", "plan_used", "login_changed"} {
		fmt.Fprintf(&on, "on codex.%s witness %s\non codex.%[1]s codex_webhook %[3]s\n", name, witness, receiver.URL)
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
		data, err := json.Marshal(e.data)
		if err != nil {
			t.Fatal(err)
		}
		e2e.WaitFor(t, "the post of "+e.name+string(data), func() bool { return posted.take(e.name + string(data)) })
	}
	if told["codex.key_used"] != 2 || told["codex.plan_used"] != 2 {
		t.Errorf("%v", told)
	}
}

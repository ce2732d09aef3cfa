package logins

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// TestWhoUsedIt: of a plan of which others have used 20 %, two keys use 20 and 10 %. /v1/usage, the admin API and the
// command say so, and each key sees its own part alone.
func TestWhoUsedIt(t *testing.T) {
	e2e.WithLogin(t)
	server := redisserver.Start(t)
	for name, store := range map[string]string{"files": "memory", "Redis": "redis " + server.URL("1")} {
		t.Run(name, func(t *testing.T) { testWhoUsedIt(t, store, "sk-ann-"+rand.Text()[:9], "sk-ben-"+rand.Text()[:9]) })
	}
}

func testWhoUsedIt(t *testing.T, store, ann, ben string) {
	file := e2e.NewKeyFile(t, map[string]string{ann: "user ann", ben: "user ben\nrequests 1 24h"})
	e2e.OwnTemp(t)
	s := e2e.NewUnstarted(t)
	meters := planbackend.AllMeters(10 * planbackend.Cost(scriptedmodel.DefaultUsage))
	meters[0].Use(20)
	s.Login.SetMeters(meters) // before the first question: a step that others take meanwhile would count as the keys'
	s.Serve("")
	admin := s.WithAdmin(s.Caddyfile("api_keys_file " + file.Path + "\nstore " + store))
	s.WaitReady()
	e2e.WaitFor(t, "the plan", func() bool { return s.Usage(ann).Get("rate_limits.0.meters.0.windows.0.used_percent").Num == 20 })
	for _, key := range []string{ann, ann, ben, ben} { // the last one is refused
		s.Post(e2e.ChatBody("say:ok", nil), e2e.Bearer(key))
	}
	name := func(key string) string { return fmt.Sprintf("%x", key) }
	share := func(w gjson.Result, key string) float64 { return w.Get("by_key." + name(key)).Num }
	is := func(got, want float64) bool { return math.Abs(got-want) < 0.5 }
	login := fmt.Sprintf("%.4x", sha256.Sum256([]byte(s.Login.Account)))
	window := func(usage gjson.Result, seconds int) gjson.Result { // other tests' logins have windows, too
		return usage.Get(fmt.Sprintf(`windows.#(login==%q)#|#(meter=="codex")#|#(window_seconds==%d)`, login, seconds))
	}
	all := func() gjson.Result {
		_, text := admin.Call(http.MethodGet, "/codex/usage", nil, nil)
		return gjson.Parse(text)
	}
	var w gjson.Result
	defer func() {
		if t.Failed() {
			t.Logf("the window is %s", w)
		}
	}()
	e2e.WaitFor(t, "the shares", func() bool {
		askLimits(admin, admin.Status().AppServers[0].ID)
		w = window(all(), 5*3600)
		return is(w.Get("used_percent").Num, 50) && is(share(w, ann), 20) && is(share(w, ben), 10) && is(w.Get("others_percent").Num, 20)
	})
	if week := window(all(), 604800); !is(share(week, ann), 20) {
		t.Errorf("the week: %s", week)
	}
	own := s.Usage(ben)
	if w := window(own, 5*3600); !is(share(w, ben), 10) || share(w, ann) != 0 || !is(w.Get("others_percent").Num, 40) || strings.Contains(own.Raw, name(ann)) {
		t.Errorf("ben sees %s", own.Raw)
	}
	if entry := own.Get("by_key.0"); entry.Get("requests").Int() != 2 || entry.Get("turns").Int() != 1 || entry.Get("refusals.rate_limit_exceeded").Int() != 1 ||
		own.Get("by_meter.0.name").Str != planbackend.PlanMeter || own.Get("by_api.0.name").Str != "chat" {
		t.Errorf("ben's usage is %s", own.Raw)
	}
	for since, want := range map[string]int{"1d": 200, "2020-01-31": 200, fmt.Sprint(time.Now().Unix()): 200, "yesterday": 400} {
		response, text := admin.Call(http.MethodGet, "/codex/usage?since="+since, nil, nil)
		if response.StatusCode != want || want == 200 && gjson.Get(text, "turns").Int() < 3 {
			t.Errorf("since %s: %s %s", since, response.Status, text)
		}
	}
	if response, text := s.Call(http.MethodGet, "/v1/usage?since=yesterday", nil, e2e.Bearer(ann)); response.StatusCode != 400 || gjson.Get(text, "error.param").Str != "since" {
		t.Errorf("%s %s", response.Status, text)
	}
	output, err := runCommand("", "usage", "--since", "1d", "--csv", "--address", admin.Addr)
	must.OK(t, err)
	rows, err := csv.NewReader(strings.NewReader(output)).ReadAll()
	must.OK(t, err)
	found := 0
	for _, row := range rows {
		if row[1] == name(ben) && (row[0] == "key" && row[2] == "2" && row[3] == "1" && row[10] == "rate_limit_exceeded:1" || strings.HasSuffix(row[0], " codex 5h") && row[11] == "10.00") {
			found++
		}
	}
	if found != 2 || len(rows[0]) != 13 {
		t.Errorf("the CSV is\n%s", output)
	}
	if output, err = runCommand("", "usage", "--address", admin.Addr); err != nil || !strings.Contains(output, "kind ") || !strings.Contains(output, "(others)") {
		t.Errorf("%v\n%s", err, output)
	}
	if _, err = runCommand("", "usage", "--since", "yesterday", "--address", admin.Addr); err == nil || !strings.Contains(err.Error(), "since must be") {
		t.Error(err)
	}
}

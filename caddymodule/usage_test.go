package caddymodule

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Callers see only the account of their key's user.
func TestUsageIsTheCallersOwn(t *testing.T) {
	// The book has no end, so that each run needs users of its own.
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := started(t, APIKey{Key: "k-ann", User: ann}, APIKey{Key: "k-ben", User: ben})
	for _, user := range []string{ann, ben} {
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{User: user, RequestID: "by-" + user, Status: http.StatusOK, Usage: codexrpc.Usage{InputTokens: 1234}}})
	}
	for key, users := range map[string]struct{ self, other string }{"k-ann": {ann, ben}, "k-ben": {ben, ann}} {
		w, err := ask(h, http.MethodGet, "/v1/usage/raw", key, nil)
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v, %d %s", err, w.Code, w.Body)
		}
		if text := w.Body.String(); !strings.Contains(text, "by-"+users.self) || strings.Contains(text, users.other) {
			t.Errorf("%s sees %s", key, text)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("the account may be cached: %q", got)
		}
		w, err = ask(h, http.MethodGet, "/v1/usage", key, nil)
		if err != nil || w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"prompt_tokens":1234,`) {
			t.Errorf("the sum for %s: %v, %d %s", key, err, w.Code, w.Body)
		}
	}
	if w, err := ask(h, http.MethodGet, "/v1/usage", "k-ann", nil); err != nil || strings.Contains(w.Body.String(), "by_user") || !strings.Contains(w.Body.String(), `"rate_limits":`) {
		t.Errorf("%v, %s", err, w.Body)
	}
	if w, err := ask(h, http.MethodGet, "/v1/usage", "", nil); err != nil || w.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %v, %d %s", err, w.Code, w.Body)
	}
}

// Other handlers may give users any names.
func TestUserOf(t *testing.T) {
	seen := make(map[string]bool)
	for _, user := range []string{"", "ann", "J\xfcrgen", "J\xf6rgen", "J\ufffdrgen", strings.Repeat("x", 1000), strings.Repeat("x", 1001)} {
		r, repl := prepared(http.MethodGet, "/v1/usage")
		repl.Set("http.auth.user.id", user)
		got := userOf(r)
		if seen[got] || !utf8.ValidString(got) || len(got) > 200 || (len(user) < 10 && utf8.ValidString(user) && got != user) {
			t.Errorf("%.20q is %q", user, got)
		}
		seen[got] = true
	}
}

// With `usage all` each caller sees the sum, and each user's part.
func TestUsageOfAll(t *testing.T) {
	ann, ben := "ann-"+rand.Text(), "ben-"+rand.Text()
	h := fakeHandler(t, t.Name())
	h.Usage = usageAll
	h = provision(t, h).handlers[0]
	for _, user := range []string{ann, ben} {
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{User: user, Status: http.StatusOK}})
	}
	for target, want := range map[string]string{"/v1/usage": `{"name":"%s","requests":1,`, "/v1/usage/raw": `"user":"%s",`} {
		w, err := ask(h, http.MethodGet, target, "", nil)
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %v, %d %s", target, err, w.Code, w.Body)
		}
		for _, user := range []string{ann, ben} {
			if !strings.Contains(w.Body.String(), fmt.Sprintf(want, user)) {
				t.Errorf("%s is not in %s: %s", user, target, w.Body)
			}
		}
	}
}

// TestUsageFileMode: only Caddy's user can read the usage,
// whatever the umask, and also if the file was readable for others before.
func TestUsageFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	file := filepath.Join(caddy.AppDataDir(), "codex", "usage.json")
	for _, loosened := range []bool{false, true} {
		if loosened {
			must.OK(t, os.Chmod(file, 0o644))
		}
		c := provision(t, fakeHandler(t, t.Name()))
		c.start(t)
		observer{turnLogger: zap.NewNop()}.TurnsEnded(t.Context(), []usage.Record{{User: "somebody", Status: http.StatusOK}})
		c.cleanup() // it stores the usage
		for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
			info, err := os.Stat(path)
			must.OK(t, err)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has the mode %o, want %o (loosened: %t)", path, got, want, loosened)
			}
		}
	}
}

// TestShareUsage checks what callers, metrics and events see of a key's share of a plan: percents of the windows of
// which it is known what they hold.
func TestShareUsage(t *testing.T) {
	key := "ann-" + rand.Text() // the book has no end
	path := writeKeys(t, map[string]string{key: "user ann\nplan_share 20%\nrequests 10 1h", "ben" + key: "user ben\nplan_share 4%\nlend on"})
	h := fakeHandler(t, t.Name())
	h.APIKeysFile = path
	h = running(t, h)
	process, now := h.pool.Processes()[0], time.Now()
	process.RateLimits(t.Context(), time.Minute) // those of the fake are not asked for again
	window := func(length time.Duration, used float64) *codexrpc.RateWindow {
		return &codexrpc.RateWindow{UsedPercent: used, Window: length, ResetsAt: now.Add(length / 2)}
	}
	learn := func(used float64) []usage.PlanWindow {
		plan := codexrpc.Meter{ID: codexrpc.PlanMeter, Primary: window(5*time.Hour, used), Secondary: window(7*24*time.Hour, 0)}
		limits := &codexrpc.RateLimits{Account: key, Meters: []codexrpc.Meter{plan}}
		process.Login().Learn(limits)
		limitsTold(process, limits)
		return usage.PlanWindows(process.LoginID(), &plan, now)
	}
	learn(0)
	record := usage.Record{Time: now, User: "ann", Key: "id-" + key, Usage: codexrpc.Usage{InputTokens: 100_000}, Windows: learn(0)}
	usageBook.Add(record)
	windows := learn(10) // so 100 % of the 5 hours cost 10 million
	k := &h.keyFile.Set().Find(key).Key
	request, err := h.limits.Begin(k)
	must.OK(t, err)
	grants, err := request.Acquire(1)
	must.OK(t, err)
	must.OK(t, request.Reserve(t.Context(), grants, 5, h.planLimits(windows)(k)...))
	grants[0].Settle(100_000, usage.Cost(record.Usage), h.planLimits(windows)(k))
	// Half of the window has passed, in which the other key has used nothing: it lends 2 %.
	shown := ` [{"unit":"requests","window":"1h","limit":10,"used":1,"remaining":9,"resets_at":T},` +
		`{"unit":"plan_share","window":"5h codex ` + process.LoginID() + `","limit":22,"used":10,"remaining":12,"resets_at":T}]`
	w, err := ask(h, http.MethodGet, "/v1/usage", key, nil)
	must.OK(t, err)
	times := regexp.MustCompile(`"resets_at":[0-9]+`)
	if got := times.ReplaceAllString(gjson.Get(w.Body.String(), "keys.0.limits").Raw, `"resets_at":T`); got != strings.TrimSpace(shown) {
		t.Errorf("%s, want%s", got, shown)
	}
	registry := prometheus.NewPedanticRegistry()
	must.OK(t, registry.Register(stateCollector{}))
	labels := " key=id-" + key + " unit=plan_share user=ann window=5h codex " + process.LoginID()
	if got := measured(t, registry); got["codex_key_used"+labels] != 10 || got["codex_key_limit"+labels] != 22 {
		t.Errorf("the metrics are %v", got)
	}
	for _, s := range request.States() {
		if limit, used, _ := s.Shown(); s.Unit == quota.PlanShare && s.Whole > 0 && (limit != 22 || used != 10) {
			t.Errorf("events say %v of %v", used, limit)
		}
	}
}

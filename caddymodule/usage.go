package caddymodule

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/pool"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// usageBook has this process's usage. keyLedger has what API keys have used. A reload keeps both.
var (
	usageBook   = usage.New()
	keyLedger   = quota.NewLedger(time.Now)
	localLimits = quota.NewLimits(keyLedger, 0, false)
)

// The keepers store usageBook and keyLedger in files, so that both survive restarts.
var (
	usageKeeper     = quota.NewKeeper(usageBook, "the usage", usage.SaveInterval)
	keyLedgerKeeper = quota.NewKeeper(keyLedger, "the use of API keys", quota.SaveInterval)
)

// lookupTimeout bounds a look-up that belongs to no turn, for example of the limits of a plan.
const lookupTimeout = 5 * time.Second

// keepBooks begins to store the usage and the use of API keys in Caddy's data directory. Earlier releases had the id of this Caddy
// in the file names. If there is no file with the present name, keepBooks reads such an older file.
func (a *App) keepBooks() {
	id, _ := os.ReadFile(filepath.Join(caddy.AppDataDir(), "instance.uuid"))
	keep := func(keeper *quota.Keeper, name string) {
		path := filepath.Join(caddy.AppDataDir(), "codex", name)
		a.releaseBooks = append(a.releaseBooks, keeper.Hold(a.logger, path+".json", filepath.Join(path, filepath.Base(string(id))+".json")))
	}
	keep(usageKeeper, "usage")
	keep(keyLedgerKeeper, "keys")
}

// userOf returns the authenticated user's name in a form that can be stored, or "".
func userOf(r *http.Request) string {
	if reqCtx, ok := r.Context().(*requestContext); ok && reqCtx.identified {
		return reqCtx.user
	}
	user, _ := replacerOf(r).Get(userVariable)
	name := caddy.ToString(user)
	if _, unnamed := user.(unnamedKey); !unnamed && strings.Contains(name, unnamedPrefix) && unnamedUserName.MatchString(name) {
		name = "user:" + name
	}
	return usage.UserName(name)
}

// unnamedUserName matches the names that keys without a name get, such as key-1, also with one or
// more "user:" in front. A user who was given such a name, by the configuration or by another
// handler, gets one more "user:" from userOf, so that no two users have the same name.
var unnamedUserName = regexp.MustCompile(`^(?:user:)*` + unnamedPrefix + `[0-9]+$`)

// usageAll is the value of the option usage that shows the usage of all users.
const usageAll = "all"

// visibleUser returns whose usage a caller may see: [usage.Everybody], or the caller's own account.
func (h *Handler) visibleUser(r *http.Request) (user string) {
	if h.Usage == usageAll {
		return usage.Everybody
	}
	return h.accountOf(r)
}

// windowsOf returns the windows of the limits of a process's login, which may be nil.
func windowsOf(p *pool.Process, limits *codexrpc.RateLimits) (windows []usage.PlanWindow) {
	for i := 0; limits != nil && i < len(limits.Meters); i++ {
		windows = append(windows, usage.PlanWindows(p.LoginID(), &limits.Meters[i], time.Now())...)
	}
	return windows
}

// limitsTold adds what Codex has told of the plan of a process's login to the usage.
func limitsTold(p *pool.Process, limits *codexrpc.RateLimits) {
	told := usage.Record{Time: time.Now(), Told: true, Windows: windowsOf(p, limits)}
	usageBook.Add(told)
	for _, h := range handlersInUse.all() {
		h.sharedUsage.Add(told)
	}
}

// usageOf returns the usage of a user since the time in the query: that of all nodes or, if shared is nil, of
// this process.
func usageOf(r *http.Request, shared *usage.Shared, user string) (account usage.Account, apiErr *apierror.Error) {
	since, err := parseSince(r.URL.Query().Get("since"))
	if err != nil {
		return account, apierror.InvalidRequest("since", "since must be Unix seconds, a date such as 2026-01-31, or a duration such as 7d.")
	}
	if shared == nil {
		return usageBook.Account(user, since), nil
	}
	account, err = shared.Account(r.Context(), user, since)
	return account, usageError(err)
}

// parseSince returns a time in Unix seconds; 0: text is empty.
func parseSince(text string) (int64, error) {
	if age, err := caddy.ParseDuration(text); err == nil {
		return time.Now().Add(-age).Unix(), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Unix(), nil
	}
	return strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
}

// serveUsage answers with the usage of the caller or of everybody, and the limits of plans and of keys.
func (h *Handler) serveUsage(w http.ResponseWriter, r *http.Request, _ []string) {
	h.gateway.Document(w, r, func() (any, *apierror.Error) {
		limits := h.rateLimits(r) // first, since the usage then has what the provider tells
		account, apiErr := usageOf(r, h.sharedUsage, h.visibleUser(r))
		return struct {
			usage.Account
			RateLimits []rateLimits `json:"rate_limits"` // the limits that are known
			Keys       []keyUsage   `json:"keys,omitempty"`
		}{account, limits, h.keyUsages(r)}, apiErr
	})
}

// serveRawUsage answers with the last turns of the caller, or of all users.
func (h *Handler) serveRawUsage(w http.ResponseWriter, r *http.Request, _ []string) {
	h.gateway.Document(w, r, func() (any, *apierror.Error) {
		var raw usage.Raw
		var err error
		if h.sharedUsage == nil {
			raw = usageBook.Raw(h.visibleUser(r))
		} else {
			raw, err = h.sharedUsage.Raw(r.Context(), h.visibleUser(r))
		}
		h.markRecorded(r, raw.Data)
		return raw, usageError(err)
	})
}

func usageError(err error) *apierror.Error {
	if err == nil {
		return nil
	}
	return apierror.UsageUnavailable()
}

// rateLimits are the limits of a login's plan, as in the status.
type rateLimits struct {
	AppServer string         `json:"app_server"` // its id
	Login     string         `json:"login"`      // as in [usage.PlanWindow]
	Plan      string         `json:"plan,omitempty"`
	Meters    []status.Meter `json:"meters"`
	At        time.Time      `json:"limits_at"`
}

// rateLimits returns the limits of the plans of this handler's logins, each login once.
func (h *Handler) rateLimits(r *http.Request) []rateLimits {
	ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
	defer cancel()
	found, processes, listed := []rateLimits{}, h.pool.Processes(), make(map[string]bool)
	for i, s := range pool.Statuses(ctx, processes) {
		if login := processes[i].LoginID(); len(s.Login.Meters) > 0 && !listed[login] {
			listed[login] = true
			found = append(found, rateLimits{s.ID, login, s.Login.Plan, s.Login.Meters, s.Login.LimitsAt})
		}
	}
	return found
}

// keyUsage is what a key of a file has used of its limits, in the body of GET /v1/usage.
type keyUsage struct {
	Key     string       `json:"key"` // its id
	User    string       `json:"user"`
	Expires *int64       `json:"expires_at"` // in Unix seconds; nil: never
	Limits  []limitUsage `json:"limits"`
}

// limitUsage is what is used of a limit. Times are in Unix seconds.
type limitUsage struct {
	Unit      quota.Unit `json:"unit"`
	Window    string     `json:"window"`
	Limit     float64    `json:"limit"` // of a plan_share in percent of the window, as Used and Remaining
	Used      float64    `json:"used"`
	Remaining float64    `json:"remaining"`
	Resets    *int64     `json:"resets_at"` // when the whole limit is free again if nothing more is used; nil: it is free now
}

func unixOrNil(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

// keyUsages returns what keys of the file have used. With the option `usage all`, these are all
// keys of the file; otherwise, only those of the caller's user.
func (h *Handler) keyUsages(r *http.Request) []keyUsage {
	file := h.of(r).keyFile
	if file == nil {
		return nil
	}
	set, usages := file.Set(), []keyUsage{}
	authUser, _ := replacerOf(r).Get(userVariable)
	user, _ := authUser.(string) // empty: the caller has no user
	if k := set.Find(presentedKey(r)); k != nil {
		user = k.User
	}
	shares := h.shares()
	var keys []*quota.Key
	for _, k := range set.Keys {
		if h.Usage == usageAll || k.User == user {
			keys = append(keys, k.With(shares(&k.Key)))
			usages = append(usages, keyUsage{Key: k.ID, User: k.User, Expires: unixOrNil(k.Expires), Limits: []limitUsage{}})
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout)
	defer cancel()
	for i, states := range h.limits.States(ctx, keys) {
		usage := &usages[i]
		for _, s := range states {
			limit, used, remaining := s.Shown()
			usage.Limits = append(usage.Limits, limitUsage{s.Unit, s.Window.String(), limit, used, remaining, unixOrNil(s.Resets)})
		}
	}
	return usages
}

// planLimits implements [gateway.Options].PlanLimits, with what is known at all nodes that share their usage.
func (h *Handler) planLimits(windows []usage.PlanWindow) func(*quota.Key) []quota.Limit {
	know, known := usageBook.Known, make([]usage.Known, len(windows))
	if h.sharedUsage != nil {
		know = h.sharedUsage.Known
	}
	for i, w := range windows {
		known[i] = know(w)
	}
	return h.keyFile.Set().PlanLimits(known)
}

// shares returns a function that returns the limits of a key in all windows of this handler's logins.
func (h *Handler) shares() func(*quota.Key) []quota.Limit {
	var windows []usage.PlanWindow
	seen := make(map[string]bool)
	for _, p := range h.pool.Processes() {
		if id := p.LoginID(); !seen[id] {
			seen[id] = true
			windows = append(windows, windowsOf(p, p.Login().Limits())...)
		}
	}
	return h.planLimits(windows)
}

var (
	keyLabels = []string{"key", "user", "unit", "window"}

	keyLimitReading = newReading("codex_key_limit", "Limit of an API key.", keyLabels...)
	keyUsedReading  = newReading("codex_key_used", "What is used of the limit in its window.", keyLabels...)
)

// maxKeyLabels bounds the number of keys that have metrics.
const maxKeyLabels = 200

// collectKeys sends the limits of API keys and what is used of them. If several handlers have a key
// with the same id, it sends the values only for the first of these handlers.
func collectKeys(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	seen := make(map[string]bool)
	for _, h := range handlersInUse.all() {
		var keys []*quota.Key
		shares := h.shares()
		for _, k := range h.keyFile.Set().Keys {
			if (len(k.Limits) > 0 || k.PlanShare > 0) && !seen[k.ID] && len(seen) < maxKeyLabels {
				seen[k.ID] = true
				keys = append(keys, k.With(shares(&k.Key)))
			}
		}
		for i, states := range h.limits.States(ctx, keys) {
			k := keys[i]
			for _, s := range states {
				labels := []string{k.ID, strings.ToValidUTF8(k.User, ""), string(s.Unit), s.Window.String()}
				limit, used, _ := s.Shown()
				send(ch, keyLimitReading, limit, labels...)
				send(ch, keyUsedReading, used, labels...)
			}
		}
	}
}

const eventKeyUsed = "codex.key_used"

// keyThresholds remembers which thresholds (80 and 100 percent) limits have passed, over reloads.
var keyThresholds quota.Thresholds

// reportLimits emits an event for each limit whose use has just reached 80 or 100 percent.
func reportLimits(r *usage.Record) {
	for _, s := range r.Limits {
		unit, window := string(s.Unit), s.Window.String()
		limit, shown, remaining := s.Shown()
		used := 100 * float64(s.Used) / float64(s.Max)
		if percent := keyThresholds.Pass(r.User+" "+r.Key+" "+unit+" "+window, used, s.Resets, time.Now()); percent > 0 {
			supervisor.Emit(eventKeyUsed, map[string]any{
				"percent": percent, "key": r.Key, "user": r.User, "unit": unit, "window": window,
				"limit": limit, "used": shown, "remaining": remaining, "resets_at": s.Resets.UTC().Format(time.RFC3339),
			})
		}
	}
}

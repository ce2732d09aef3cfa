package caddymodule

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"regexp"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// book keeps the usage of this Caddy, over reloads.
var book = usage.New()

// userOf is who makes a request, by whatever has authenticated it: a key of
// ours or one of Caddy's own handlers. It is text that can be stored. Empty:
// nobody has said.
func userOf(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.Get("http.auth.user.id")
	name := caddy.ToString(user)
	if _, unnamed := user.(unnamedKey); !unnamed && likeUnnamed.MatchString(name) {
		name = "user:" + name
	}
	return usage.UserName(name)
}

// likeUnnamed matches the names of unnamed keys, and what becomes of others with
// such a name, so that no two users come to have one name.
var likeUnnamed = regexp.MustCompile(`^(?:user:)*key-[0-9]+$`)

// The values of the option usage.
const (
	usageOwn = "own"
	usageAll = "all"
)

// serveUsage answers with the caller's account, or all of them, and with the
// limits of the plan.
func (h *Handler) serveUsage(w http.ResponseWriter, r *http.Request) {
	body := struct {
		usage.Account
		RateLimits []rateLimits `json:"rate_limits"` // as far as they are known
	}{RateLimits: h.rateLimits(r)}
	if h.Usage == usageAll {
		body.Account = book.All()
	} else {
		body.Account = book.Account(userOf(r))
	}
	writeJSON(w, body)
}

// serveRawUsage answers with the caller's last turns, or those of all.
func (h *Handler) serveRawUsage(w http.ResponseWriter, r *http.Request) {
	if h.Usage == usageAll {
		writeJSON(w, book.AllRaw())
		return
	}
	writeJSON(w, book.Raw(userOf(r)))
}

// rateLimits are the limits of the plan that Codex is logged in with, as it
// reports them.
type rateLimits struct {
	AppServer string      `json:"app_server"` // by its id
	At        int64       `json:"at"`         // when Codex told it, Unix time in seconds
	Plan      string      `json:"plan,omitempty"`
	Reached   string      `json:"reached,omitempty"` // which limit keeps the account from working
	Primary   *rateWindow `json:"primary"`
	Secondary *rateWindow `json:"secondary"`
}

type rateWindow struct {
	UsedPercent float64 `json:"used_percent"`
	Window      int64   `json:"window_seconds,omitempty"`
	ResetsAt    int64   `json:"resets_at,omitempty"` // Unix time in seconds
}

// rateLimits asks the app-servers of this handler, or remembers their answers.
// Those that share a home share a plan.
func (h *Handler) rateLimits(r *http.Request) []rateLimits {
	ctx, cancel := context.WithTimeout(r.Context(), lookupTimeout) // for all of them
	defer cancel()
	found := []rateLimits{}
	homes := make(map[[2]string]bool)
	for _, m := range h.pool.members {
		home, p := [2]string{cmp.Or(m.cfg.Home, m.cfg.Env["CODEX_HOME"]), m.cfg.Connect}, m.current()
		if p == nil || homes[home] {
			continue
		}
		if limits := p.watch.rateLimits(ctx); limits != nil {
			homes[home] = true
			found = append(found, rateLimits{
				p.watch.id, limits.At.Unix(), limits.Plan, limits.Reached,
				newRateWindow(limits.Primary), newRateWindow(limits.Secondary),
			})
		}
	}
	return found
}

func newRateWindow(w *codexrpc.RateWindow) *rateWindow {
	if w == nil {
		return nil
	}
	window := &rateWindow{UsedPercent: w.UsedPercent, Window: int64(w.Window.Seconds())}
	if !w.ResetsAt.IsZero() {
		window.ResetsAt = w.ResetsAt.Unix()
	}
	return window
}

// writeJSON writes a body. A client that does not take it has gone.
func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(body)
}

package caddymodule

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-codex/caddy-codex/internal/apikeys"
	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// keyUsage is what a key of a file has used of its limits, in the body of GET /v1/usage.
type keyUsage struct {
	Key     string       `json:"key"` // its id
	User    string       `json:"user"`
	Expires *int64       `json:"expires_at"` // in Unix seconds
	Limits  []limitUsage `json:"limits"`
}

// limitUsage is what is used of a limit. Times are in Unix seconds.
type limitUsage struct {
	Unit      quota.Unit `json:"unit"`
	Window    string     `json:"window"`
	Limit     int64      `json:"limit"`
	Used      int64      `json:"used"`
	Remaining int64      `json:"remaining"`
	Resets    *int64     `json:"resets_at"`    // when all of it is free again
	Exhausted *int64     `json:"exhausted_at"` // at the present rate
}

// unixOrNil returns a time in Unix seconds, nil for the zero time.
func unixOrNil(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

// keyUsages returns what the keys of this handler's file have used: those of the caller's
// user, or all.
func (h *Handler) keyUsages(r *http.Request) []keyUsage {
	if h.keyFile == nil {
		return nil
	}
	set, usages := h.keyFile.Set(), []keyUsage{}
	own := callerOf(r)
	if k := set.Find(presentedKey(r)); k != nil {
		own = k.User
	}
	for _, k := range set.Keys {
		if h.Usage != usageAll && k.User != own {
			continue
		}
		usage := keyUsage{Key: k.ID, User: k.User, Expires: unixOrNil(k.Expires), Limits: []limitUsage{}}
		for _, s := range ledger.Forecasts(&k.Key) {
			usage.Limits = append(usage.Limits, limitUsage{
				s.Unit, s.Window.String(), s.Max, s.Used, s.Remaining(), unixOrNil(s.Resets), unixOrNil(s.Exhausted),
			})
		}
		usages = append(usages, usage)
	}
	return usages
}

// callerOf returns the name of the user as it was authenticated, empty for a key without
// one.
func callerOf(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	name, _ := repl.Get("http.auth.user.id")
	user, _ := name.(string)
	return user
}

// maxKeyLabels bounds the keys in the metrics, in the order of the files.
const maxKeyLabels = 200

var (
	keyLimitReading     = readKey("codex_key_limit", "Limit of an API key.")
	keyUsedReading      = readKey("codex_key_used", "What is used of the limit in its window.")
	keyExhaustedReading = readKey("codex_key_exhausted_timestamp_seconds", "When nothing of the limit will be left at the present rate; left out if that will not happen before it is free again.")
)

// readKey returns a reading of a limit of a key.
func readKey(name, help string) reading {
	return read(name, help, "key", "user", "unit", "window")
}

// limitedKeys returns the keys with limits of all configurations in use, each id once, as
// many as metrics may have.
func limitedKeys() (keys []*apikeys.Key) {
	seen := make(map[string]bool)
	for _, h := range inUse.all() {
		if h.keyFile == nil {
			continue
		}
		for _, k := range h.keyFile.Set().Keys {
			if len(keys) == maxKeyLabels {
				return keys
			}
			if len(k.Limits) > 0 && !seen[k.ID] {
				seen[k.ID] = true
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// collectKeys sends the values of the limits of keys.
func collectKeys(to chan<- prometheus.Metric) {
	for _, k := range limitedKeys() {
		for _, s := range ledger.Forecasts(&k.Key) {
			labels := []string{k.ID, strings.ToValidUTF8(k.User, ""), string(s.Unit), s.Window.String()}
			send(to, keyLimitReading, s.Max, labels...)
			send(to, keyUsedReading, s.Used, labels...)
			if !s.Exhausted.IsZero() {
				send(to, keyExhaustedReading, s.Exhausted.Unix(), labels...)
			}
		}
	}
}

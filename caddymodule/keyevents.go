package caddymodule

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

const eventKeyUsed = "codex.key_used"

// keyThresholds remembers which thresholds (80 and 100 percent) limits have passed, over reloads.
var keyThresholds quota.Thresholds

// reportLimits emits an event for each limit whose use has just reached 80 or 100 percent.
func reportLimits(r *usage.Record) {
	for _, s := range r.Limits {
		unit, window := string(s.Unit), s.Window.String()
		used := 100 * float64(s.Used) / float64(s.Max)
		if percent := keyThresholds.Pass(r.User+" "+r.Key+" "+unit+" "+window, used, s.Resets, time.Now()); percent > 0 {
			supervisor.Emit(eventKeyUsed, map[string]any{
				"percent": percent, "key": r.Key, "user": r.User, "unit": unit, "window": window,
				"limit": s.Max, "used": s.Used, "remaining": s.Remaining(), "resets_at": s.Resets.UTC().Format(time.RFC3339),
			})
		}
	}
}

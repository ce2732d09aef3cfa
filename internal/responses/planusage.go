package responses

import (
	"cmp"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// backendAccount is what the Codex CLI must find at its chatgpt_base_url before it starts: the account_id of
// its login, and an HTTPS origin, which the CLI does not ask.
const backendAccount = `{"accounts":[{"id":"caddy-codex","workspace_backend_origin":"https://chatgpt.com","account_routing_override":"NO_CONSTRAINT"}]}`

// planUsage returns the limits of a plan as ChatGPT's back end does. The Codex CLI needs each of the members.
func planUsage(c api.Call) ([]byte, *apierror.Error) {
	type object map[string]any
	window := func(w *codexrpc.RateWindow) object {
		if w == nil {
			return nil
		}
		return object{
			"used_percent": int(w.UsedPercent), "limit_window_seconds": int(w.Window.Seconds()),
			"reset_after_seconds": max(0, int(time.Until(w.ResetsAt).Seconds())), "reset_at": max(0, w.ResetsAt.Unix()),
		}
	}
	rateLimit := func(m *codexrpc.Meter, allowed bool) any {
		if len(m.Windows()) == 0 {
			return nil
		}
		return object{
			"allowed": allowed, "limit_reached": !allowed, "primary_window": window(m.Primary), "secondary_window": window(m.Secondary),
		}
	}
	limits := cmp.Or(c.Plan(), new(codexrpc.RateLimits))
	answer := object{"plan_type": cmp.Or(limits.Plan, "unknown"), "rate_limit": nil, "credits": limits.Credits}
	var further []object
	for i := range limits.Meters {
		m := &limits.Meters[i]
		_, spent := m.Spent(time.Now())
		if m.ID == codexrpc.PlanMeter {
			answer["rate_limit"] = rateLimit(m, limits.Allowed == nil || *limits.Allowed)
			continue
		}
		further = append(further, object{"limit_name": m.Name, "metered_feature": m.ID, "rate_limit": rateLimit(m, !spent)})
	}
	answer["additional_rate_limits"] = further
	return wirejson.Append(nil, answer), nil
}

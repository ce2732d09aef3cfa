package responses

import (
	"cmp"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// API is OpenAI's Responses API, without the routes about what is stored.
var API = api.API{
	Name:   "responses",
	Images: "input",
	Routes: []api.Route{
		{Path: "/v1/responses", Methods: api.Post, Turn: api.Decoder(Decode), Socket: api.Decoder(DecodeCreate)},
		// Counting occupies a slot for turns, since it can take as long as a turn.
		{Path: "/v1/responses/input_tokens", Methods: api.Post, Turn: api.Decoder(Decode), Count: InputTokens},
		{Path: "/v1/responses/compact", Methods: api.Post, Turn: api.Decoder(DecodeCompact)},
		{Path: "/backend-api/wham/usage", Methods: api.Get, Plain: planUsage},
		{Path: "/backend-api/wham/accounts/check", Methods: api.Get, Plain: api.Document([]byte(backendAccount))},
	},
}

// ResponseRequest returns the request itself, for the gateway, which stores its response.
func (r *Request) ResponseRequest() *Request { return r }

// Answer implements [api.Request].
func (r *Request) Answer(start api.Start, options *turn.Options) api.Answer {
	options.Items = true
	options.IDSuffix = r.Suffix[len(r.Suffix)-api.SuffixLength:]
	meta := r.Meta(r.Suffix)
	meta.Created = time.Now().Unix()
	meta.Now = func() int64 { return time.Now().Unix() }
	meta.CallsInText = options.OutputMode == turn.ModeXML
	meta.Keep = start.Keep
	return NewEncoder(meta)
}

// Meta returns the data that the events and the Response share.
func (s *Encoder) Meta() Meta { return s.meta }

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

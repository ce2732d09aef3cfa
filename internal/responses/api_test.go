package responses

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
)

// planCall is a request that this plan would serve.
type planCall struct {
	api.Call
	limits *codexrpc.RateLimits
}

func (c planCall) Plan() *codexrpc.RateLimits { return c.limits }

// TestPlanUsage checks the form of each limit: the Codex CLI refuses a window without a number.
func TestPlanUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is the year 2000
		now := time.Now()
		five := &codexrpc.RateWindow{UsedPercent: 41, Window: 5 * time.Hour, ResetsAt: now.Add(time.Hour)}
		const fiveJSON = `{"limit_window_seconds":18000,"reset_after_seconds":3600,"reset_at":946688400,"used_percent":41}`
		plan := func(primary, secondary *codexrpc.RateWindow) []codexrpc.Meter {
			return []codexrpc.Meter{{ID: codexrpc.PlanMeter, Primary: primary, Secondary: secondary}}
		}
		for name, c := range map[string]struct {
			limits *codexrpc.RateLimits
			want   string
		}{
			"no plan": {nil, `{"additional_rate_limits":null,"credits":null,"plan_type":"unknown","rate_limit":null}`},
			"one window": {&codexrpc.RateLimits{Plan: "pro", Meters: plan(five, nil)},
				`{"additional_rate_limits":null,"credits":null,"plan_type":"pro","rate_limit":{"allowed":true,"limit_reached":false,"primary_window":` + fiveJSON + `,"secondary_window":null}}`},
			"spent, with credits": {&codexrpc.RateLimits{Plan: "plus", Meters: plan(nil, five), Allowed: new(false), Credits: &codexrpc.Credits{Has: true, Balance: "12.50"}},
				`{"additional_rate_limits":null,"credits":{"has_credits":true,"unlimited":false,"balance":"12.50"},"plan_type":"plus","rate_limit":{"allowed":false,"limit_reached":true,"primary_window":null,"secondary_window":` + fiveJSON + `}}`},
			"no reset": {&codexrpc.RateLimits{Meters: plan(&codexrpc.RateWindow{UsedPercent: 99.9}, nil), Allowed: new(true)},
				`{"additional_rate_limits":null,"credits":null,"plan_type":"unknown","rate_limit":{"allowed":true,"limit_reached":false,"primary_window":{"limit_window_seconds":0,"reset_after_seconds":0,"reset_at":0,"used_percent":99},"secondary_window":null}}`},
			"reset before": {&codexrpc.RateLimits{Meters: plan(&codexrpc.RateWindow{ResetsAt: now.Add(-time.Hour)}, nil)},
				`{"additional_rate_limits":null,"credits":null,"plan_type":"unknown","rate_limit":{"allowed":true,"limit_reached":false,"primary_window":{"limit_window_seconds":0,"reset_after_seconds":0,"reset_at":946681200,"used_percent":0},"secondary_window":null}}`},
			"a model's own": {&codexrpc.RateLimits{Meters: []codexrpc.Meter{{ID: "codex_x", Name: "X", Primary: five}}},
				`{"additional_rate_limits":[{"limit_name":"X","metered_feature":"codex_x","rate_limit":{"allowed":true,"limit_reached":false,"primary_window":` + fiveJSON + `,"secondary_window":null}}],"credits":null,"plan_type":"unknown","rate_limit":null}`},
		} {
			if body, apiErr := planUsage(planCall{limits: c.limits}); apiErr != nil || string(body) != c.want {
				t.Errorf("%s: %s, %v", name, body, apiErr)
			}
		}
	})
}

package operations

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/test/codexhome"
	"github.com/caddy-codex/caddy-codex/internal/test/e2e"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/planbackend"
	"github.com/caddy-codex/caddy-codex/internal/test/scriptedmodel"
)

// ordinary is a model that the plan's meter counts.
const ordinary = "gpt-5.5"

// meterOf maps a model to its meter.
var meterOf = map[string]string{
	ordinary: planbackend.PlanMeter, planbackend.LunaModel: planbackend.PlanMeter,
	planbackend.SparkModel: planbackend.SparkMeter, planbackend.ReserveModel: planbackend.ReserveMeter,
}

// newMeteredHome returns a home with a login that has all meters; 100 % cost capacity.
func newMeteredHome(t *testing.T, capacity int64) e2e.Home {
	t.Helper()
	model := scriptedmodel.New(scriptedmodel.Options{})
	home := e2e.NewHome(t, model, codexhome.Options{})
	t.Cleanup(model.Close)
	must.OK(t, home.Plan.AddMeteredModels())
	home.Login.SetMeters(planbackend.AllMeters(capacity))
	return home
}

// TestMetersOfCodex checks what Codex itself says of a login's meters, on which the other tests rely: all
// of them if it is asked, and after each turn one that need not be that of the turn.
func TestMetersOfCodex(t *testing.T) {
	e2e.WithLogin(t)
	e2e.OverBoth(t, func(t *testing.T) {
		home := newMeteredHome(t, 10*planbackend.Cost(scriptedmodel.DefaultUsage))
		a := e2e.StartAppServer(t, home.Login)
		used := func(want map[string]int64, allowed bool) {
			t.Helper()
			limits := a.RateLimits()
			for id, percent := range want {
				m := limits.Get("rateLimitsByLimitId." + id)
				if got := m.Get("primary.usedPercent"); !got.Exists() || got.Int() != percent || m.Get("limitId").Str != id {
					t.Errorf("%s: %s, want %d", id, m.Raw, percent)
				}
			}
			if got := limits.Get("ordinaryUsageAllowed").Bool(); got != allowed || limits.Get("rateLimits.limitId").Str != planbackend.PlanMeter {
				t.Errorf("allowed %t: %s", got, limits.Raw)
			}
		}
		updated := func() gjson.Result { return a.Told("account/rateLimits/updated").Get("params.rateLimits.limitId") }
		for _, model := range []string{ordinary, planbackend.LunaModel, planbackend.SparkModel, planbackend.ReserveModel} {
			if end := a.Turn(model, "say:ok"); end.Get("status").Str != "completed" {
				t.Errorf("%s: %s", model, end.Raw)
			}
			want := meterOf[model]
			if e2e.Transport == scriptedmodel.HTTP {
				want = planbackend.SparkMeter // the last one in the headers
			}
			if got := updated(); got.Str != want {
				t.Errorf("after %s it tells of %s, want %s", model, got.Raw, want)
			}
		}
		used(map[string]int64{planbackend.PlanMeter: 20, planbackend.SparkMeter: 10, planbackend.ReserveMeter: 10}, true)
		for model, want := range map[string]string{ordinary: "premium", planbackend.SparkModel: planbackend.SparkMeter, planbackend.ReserveModel: planbackend.ReserveMeter} {
			home.Login.Change(meterOf[model], func(m *planbackend.Meter) { m.Use(100) })
			if end := a.Turn(model, "say:ok"); end.Get("error.codexErrorInfo").Str != "usageLimitExceeded" {
				t.Errorf("%s: %s", model, end.Raw)
			}
			if got := updated(); got.Str != want {
				t.Errorf("after %s was refused it tells of %s, want %s", model, got.Raw, want)
			}
			home.Login.Change(meterOf[model], (*planbackend.Meter).Reset)
		}
		home.Login.Change(planbackend.PlanMeter, func(m *planbackend.Meter) { m.Use(100) })
		used(map[string]int64{planbackend.PlanMeter: 100, planbackend.SparkMeter: 0, planbackend.ReserveMeter: 0}, false)
		if banner := a.RateLimits().Get("rateLimitUpsell.banner_type"); banner.Str != "luna_reserve" {
			t.Errorf("the banner is %s", banner.Raw)
		}
	})
}

package codexrpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSpent(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	full := func(in time.Duration) *RateWindow { return &RateWindow{UsedPercent: 100, ResetsAt: now.Add(in)} }
	free := &RateWindow{UsedPercent: 99, ResetsAt: now.Add(time.Hour)}
	for name, test := range map[string]struct {
		meter *Meter
		spent bool
		want  time.Duration
	}{
		"unknown":      {nil, false, 0},
		"no window":    {&Meter{}, false, 0},
		"free":         {&Meter{Primary: free, Secondary: free}, false, 0},
		"primary":      {&Meter{Primary: full(time.Minute), Secondary: free}, true, time.Minute},
		"secondary":    {&Meter{Primary: free, Secondary: full(2 * time.Minute)}, true, 2 * time.Minute},
		"both":         {&Meter{Primary: full(time.Minute), Secondary: full(time.Hour)}, true, time.Hour},
		"both, turned": {&Meter{Primary: full(time.Hour), Secondary: full(time.Minute)}, true, time.Hour},
		"over":         {&Meter{Primary: full(-time.Second), Secondary: full(0)}, false, 0},
		"never told":   {&Meter{Primary: &RateWindow{UsedPercent: 120}}, true, 0},
	} {
		at, spent := test.meter.Spent(now)
		if spent != test.spent || at.IsZero() != (test.want == 0) || !at.IsZero() && at.Sub(now) != test.want {
			t.Errorf("%s: %v, %t", name, at, spent)
		}
	}
}

// TestResetSince: a window that was over when it was told has not been reset since.
func TestResetSince(t *testing.T) {
	now := time.Now()
	for resets, want := range map[time.Duration]bool{-2 * time.Hour: false, -time.Minute: true, time.Minute: false} {
		m := Meter{Secondary: &RateWindow{ResetsAt: now.Add(resets)}}
		if got := m.ResetSince(now.Add(-time.Hour)); got != want {
			t.Errorf("%s: %t", resets, got)
		}
	}
}

func ask(t *testing.T, c *Conn, p *peer, reserve bool, answer func(heard)) (*RateLimits, error) {
	t.Helper()
	var got *RateLimits
	done := async(func() (err error) {
		got, err = c.RateLimits(t.Context(), reserve)
		return err
	})
	answer(p.expect(methodRateLimitsRead))
	return got, <-done
}

// fourMeters is an answer with the meters in another order, one that nobody names, and members of wrong types.
const fourMeters = `{"ordinaryUsageAllowed":false,"accountId":"acc-1","rateLimitUpsell":{"banner_type":"luna_reserve"},"rateLimitResetCredits":{"availableCount":2,"credits":null},
	"rateLimits":{"limitId":"codex","limitName":null,"primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":1800000000},
		"secondary":{"usedPercent":42.5,"windowDurationMins":null,"resetsAt":9223372036854775807},"credits":{"hasCredits":true,"unlimited":false,"balance":"12.50"},"planType":"pro","rateLimitReachedType":"rate_limit_reached"},
	"rateLimitsByLimitId":{
		"codex_bengalfox":{"limitId":"codex_bengalfox","limitName":"GPT-5.3-Codex-Spark","normalModelSlug":7,"primary":{"usedPercent":5,"windowDurationMins":300,"resetsAt":1800000001},"secondary":null},
		"codex":{"limitId":"codex","primary":null},"none":null,
		"base_model_inference":{"limitName":"gpt-reserve","normalModelSlug":"gpt-6.1-luna","primary":{"usedPercent":24,"windowDurationMins":10080,"resetsAt":1800000002}},
		"codex_other":{"limitName":"Other","normalModelSlug":"gpt-9"}}}`

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, log := dialLogged(t)
		refuse := func(h heard) { p.refuse(h, -32600, "codex account authentication required to read rate limits") }
		var refused *CallError
		if _, err := ask(t, c, p, false, refuse); !errors.As(err, &refused) {
			t.Errorf("nothing known: %v", err)
		}
		p.notify(methodRateLimitsUpdated, `{"rateLimits":{"limitId":"codex_bengalfox","primary":{"usedPercent":100}}}`)
		p.notify(methodRateLimitsUpdated, `{}`)
		got, err := ask(t, c, p, true, func(h heard) {
			if params := string(h.Params); params != `{"supportsLunaReserve":true}` {
				t.Errorf("asked with %s", params)
			}
			p.answer(h, fourMeters)
		})
		if err != nil || c.LimitChanges() != 2 || len(got.Meters) != 4 {
			t.Fatalf("%+v, %v, %d changes", got, err, c.LimitChanges())
		}
		if got.Plan != "pro" || got.Account != "acc-1" || got.Allowed == nil || *got.Allowed || !got.LunaReserve || !got.At.Equal(time.Now()) ||
			*got.Credits != (Credits{Has: true, Balance: "12.50"}) || got.ResetCredits.Available != 2 {
			t.Errorf("got %+v", got)
		}
		if m := got.Meters[0]; m.ID != PlanMeter || m.Reached != "rate_limit_reached" || *m.Primary != (RateWindow{100, 5 * time.Hour, time.Unix(1_800_000_000, 0)}) || *m.Secondary != (RateWindow{UsedPercent: 42.5}) {
			t.Errorf("the plan's is %+v", m)
		}
		for model, want := range map[string]string{
			"": PlanMeter, "gpt-6-sol": PlanMeter, "gpt-6.1-luna": PlanMeter, "gpt-5.3-codex-spark": "codex_bengalfox",
			"GPT-Reserve": "base_model_inference", "gpt-9": "codex_other", "codex_bengalfox": PlanMeter,
		} {
			if m := got.Meter(model); m == nil || m.ID != want {
				t.Errorf("the meter of %q is %+v", model, m)
			}
		}
		if m := (*RateLimits)(nil).Meter("m"); m != nil {
			t.Errorf("without limits: %+v", m)
		}
		got, err = ask(t, c, p, false, func(h heard) {
			p.answer(h, `{"rateLimits":null,"rateLimitsByLimitId":{"`+strings.Repeat("m", maxMeterName+1)+`":{}},"rateLimitUpsell":{"banner_type":"luna_reserve"}}`)
		})
		if err != nil || len(got.Meters) != 1 || len(got.Meter("m").Windows()) != 0 || got.LunaReserve {
			t.Errorf("nothing told, and no reserve asked for: %+v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.RateLimits(ctx, false); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if got := log.String(); got != "" {
			t.Errorf("logged %s", got)
		}
	})
}

// TestWindowName checks the names of windows, which are labels of metrics.
func TestWindowName(t *testing.T) {
	for length, want := range map[time.Duration]string{
		0: "unknown", -time.Hour: "unknown", time.Minute: "1m", 59 * time.Minute: "59m", time.Hour: "1h", 5 * time.Hour: "5h", 24 * time.Hour: "24h",
		7 * 24 * time.Hour: "7d", 30 * 24 * time.Hour: "30d", 50 * time.Hour: "2d",
	} {
		if got := (&RateWindow{Window: length}).Name(); got != want {
			t.Errorf("%s is called %s, want %s", length, got, want)
		}
	}
}

// TestReadResetCredits checks what is read of the credits, of which the first to expire is told.
func TestReadResetCredits(t *testing.T) {
	for summary, want := range map[string]*ResetCredits{
		`null`: nil, `{"availableCount":"2"}`: nil, ``: nil,
		`{"availableCount":3,"credits":null}`: {Available: 3},
		`{"availableCount":2,"credits":[{"id":"a","expiresAt":null},{"id":"b","expiresAt":9223372036854775807}]}`:                        {Available: 2},
		`{"availableCount":3,"credits":[{"expiresAt":1800000002},{"expiresAt":null},{"expiresAt":1800000001},{"expiresAt":1800000003}]}`: {3, time.Unix(1800000001, 0).UTC()},
	} {
		got := readResetCredits([]byte(summary))
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s: %+v", summary, got)
		}
	}
}

// TestSpendResetCredit checks what Codex is asked, its outcomes, and the words of its errors.
func TestSpendResetCredit(t *testing.T) {
	for _, c := range []struct {
		answer  string
		code    int // of an error, with answer as its message
		outcome ResetOutcome
		err     string
	}{
		{`{"outcome":"reset","future":1}`, 0, ResetDone, ""},
		{`{"outcome":"nothingToReset"}`, 0, ResetUseless, ""},
		{`failed: POST https://x failed: 500 Internal Server Error; content-type=text/html; body=<html>`, -32603, "", "codex says: failed: POST https://x failed: 500 Internal Server Error"},
		{strings.Repeat("x", 2*maxSpendError), -32603, "", "codex says: " + strings.Repeat("x", maxSpendError) + "…"},
	} {
		withPeer(t, func(t *testing.T, conn *Conn, p *peer) {
			var outcome ResetOutcome
			done := async(func() (err error) {
				outcome, err = conn.SpendResetCredit(t.Context(), "one")
				return err
			})
			call := p.expect(methodSpendReset)
			if string(call.Params) != `{"idempotencyKey":"one"}` {
				t.Errorf("asked %s", call.Params)
			}
			if c.code != 0 {
				p.refuse(call, c.code, c.answer)
			} else {
				p.answer(call, c.answer)
			}
			err := <-done
			if outcome != c.outcome || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%s: %q, %v", c.answer, outcome, err)
			}
		})
	}
}

package codexrpc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryAt(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	spent := func(in time.Duration) *RateWindow { return &RateWindow{UsedPercent: 100, ResetsAt: now.Add(in)} }
	free := &RateWindow{UsedPercent: 99, ResetsAt: now.Add(time.Hour)}
	for name, test := range map[string]struct {
		limits RateLimits
		want   time.Duration
	}{
		"unknown":      {RateLimits{}, 0},
		"free":         {RateLimits{Primary: free, Secondary: free}, 0},
		"primary":      {RateLimits{Primary: spent(time.Minute), Secondary: free}, time.Minute},
		"secondary":    {RateLimits{Primary: free, Secondary: spent(2 * time.Minute)}, 2 * time.Minute},
		"both":         {RateLimits{Primary: spent(time.Minute), Secondary: spent(time.Hour)}, time.Hour},
		"both, turned": {RateLimits{Primary: spent(time.Hour), Secondary: spent(time.Minute)}, time.Hour},
		"over":         {RateLimits{Primary: spent(-time.Second), Secondary: spent(0)}, 0},
		"never told":   {RateLimits{Primary: &RateWindow{UsedPercent: 120}}, 0},
	} {
		if at := test.limits.RetryAt(now); at.IsZero() != (test.want == 0) || !at.IsZero() && at.Sub(now) != test.want {
			t.Errorf("%s: %v", name, at)
		}
	}
}

func TestTightest(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	window := func(used float64, resetsIn time.Duration) *RateWindow {
		return &RateWindow{UsedPercent: used, ResetsAt: now.Add(resetsIn)}
	}
	little, much, over := window(10, time.Minute), window(90, time.Hour), window(100, -time.Second)
	undated := &RateWindow{UsedPercent: 50}
	for name, test := range map[string]struct {
		limits RateLimits
		want   *RateWindow
	}{
		"unknown":         {RateLimits{}, nil},
		"one":             {RateLimits{Secondary: little}, little},
		"the second":      {RateLimits{Primary: little, Secondary: much}, much},
		"the first":       {RateLimits{Primary: much, Secondary: little}, much},
		"equal":           {RateLimits{Primary: little, Secondary: window(10, time.Hour)}, little},
		"reset since":     {RateLimits{Primary: over, Secondary: little}, little},
		"both reset":      {RateLimits{Primary: over, Secondary: over}, nil},
		"without a reset": {RateLimits{Primary: undated, Secondary: little}, undated},
	} {
		if got := test.limits.Tightest(now); got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func update(p *peer, snapshot string) {
	p.t.Helper()
	p.notify(methodRateLimitsUpdated, `{"rateLimits":`+snapshot+`}`)
}

func ask(t *testing.T, c *Conn, p *peer, answer func(heard)) (RateLimits, error) {
	t.Helper()
	var got RateLimits
	done := async(func() (err error) {
		got, err = c.RateLimits(t.Context())
		return err
	})
	answer(p.expect(methodRateLimitsRead))
	return got, <-done
}

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, log := dialLogged(t)
		refuse := func(h heard) { p.refuse(h, -32600, "codex account authentication required to read rate limits") }
		var refused *CallError
		if _, err := ask(t, c, p, refuse); !errors.As(err, &refused) {
			t.Errorf("nothing known: %v", err)
		}
		update(p, `{"limitId":"codex","primary":null,"secondary":null,"planType":null,"rateLimitReachedType":null}`)
		if _, err := ask(t, c, p, refuse); !errors.As(err, &refused) {
			t.Errorf("nothing told: %v", err)
		}
		update(p, `{"limitId":"codex","primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":1800000000},"secondary":{"usedPercent":42.5,"windowDurationMins":null,"resetsAt":null},"planType":"plus","rateLimitReachedType":"rate_limit_reached"}`)
		update(p, `{"limitId":"codex","primary":null,"secondary":null,"planType":null}`) // tells nothing
		got, err := ask(t, c, p, refuse)
		if !errors.As(err, &refused) {
			t.Errorf("something told: %v", err)
		}
		if *got.Primary != (RateWindow{100, 5 * time.Hour, time.Unix(1_800_000_000, 0)}) || *got.Secondary != (RateWindow{UsedPercent: 42.5}) {
			t.Errorf("the windows are %+v, %+v", got.Primary, got.Secondary)
		}
		if got.Plan != "plus" || got.Reached != "rate_limit_reached" || got.LimitID != "codex" || !got.At.Equal(time.Now()) {
			t.Errorf("got %+v", got)
		}
		update(p, `{"limitId":"codex","primary":{"usedPercent":1,"windowDurationMins":300,"resetsAt":1800000001},"secondary":null,"planType":null,"rateLimitReachedType":null}`)
		if got, _ := ask(t, c, p, refuse); got.Primary.UsedPercent != 1 || got.Secondary != nil || got.Plan != "plus" || got.Reached != "" {
			t.Errorf("after an update: %+v", got)
		}
		// An answer is the truth, and is kept.
		got, err = ask(t, c, p, func(h heard) {
			p.answer(h, `{"rateLimits":{"limitId":"codex","primary":{"usedPercent":7,"windowDurationMins":300,"resetsAt":1800000002},"secondary":null,"planType":"pro"},"rateLimitsByLimitId":null}`)
		})
		if again, _ := ask(t, c, p, refuse); err != nil || got.Primary.UsedPercent != 7 || got.Plan != "pro" || *again.Primary != *got.Primary {
			t.Errorf("read %+v (%v), then %+v", got, err, again)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.RateLimits(ctx); !errors.Is(err, context.Canceled) {
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
		0: "unknown", -time.Hour: "unknown", time.Minute: "1h", 5 * time.Hour: "5h", 24 * time.Hour: "24h",
		7 * 24 * time.Hour: "7d", 30 * 24 * time.Hour: "30d", 50 * time.Hour: "2d",
	} {
		if got := (&RateWindow{Window: length}).Name(); got != want {
			t.Errorf("%s is called %s, want %s", length, got, want)
		}
	}
}

// The permission to use the plan is that of the last answer to a question, and credits stay known.
func TestAllowed(t *testing.T) {
	var l limits
	allowed := true
	l.update(`{"limitId":"codex","credits":{"hasCredits":true,"unlimited":false,"balance":"5.39"}}`, &allowed, &ResetCredits{Available: 2})
	if now := l.snapshot(); now.At.IsZero() || now.Allowed == nil || !*now.Allowed || *now.Credits != (Credits{Has: true, Balance: "5.39"}) {
		t.Errorf("%+v", now)
	}
	l.update(`{"limitId":"codex","primary":{"usedPercent":100,"resetsAt":9223372036854775807,"windowDurationMins":9223372036854775807},"credits":null}`, nil, nil)
	if now := l.snapshot(); now.Allowed != nil || now.Credits == nil || now.ResetCredits.Available != 2 || now.Primary == nil || !now.Primary.ResetsAt.IsZero() || now.Primary.Name() != "unknown" {
		t.Errorf("%+v", now)
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
		{"Invalid request: unknown variant `account/rateLimitResetCredit/consume`, expected one of `initialize`", -32600, "", "this codex is too old to spend reset credits; update it"},
		{"unknown method", codeMethodNotFound, "", "this codex is too old to spend reset credits; update it"},
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
			if old := strings.Contains(c.err, "too old"); old != errors.Is(err, ErrTooOld) {
				t.Error(err)
			}
		})
	}
}

package codexrpc

import (
	"context"
	"errors"
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
		at, ok := test.limits.RetryAt(now)
		if ok != (test.want != 0) || ok && at.Sub(now) != test.want {
			t.Errorf("%s: %v %t", name, at, ok)
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

// update sends a notification of the limits.
func update(p *peer, snapshot string) {
	p.t.Helper()
	p.notify(methodRateLimitsUpdated, `{"rateLimits":`+snapshot+`}`)
}

// ask calls RateLimits and lets the peer answer.
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
		if err != nil {
			t.Fatal(err)
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

// TestExplainLimit checks that the failure of a spent plan gets its reset from the
// known limits, or from those that are asked for.
func TestExplainLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t)
		thread := openTurn(t, c, p, "thr-1", "trn-1")
		bare := &TurnError{Message: "spent", Code: CodeUsageLimit}
		for _, err := range []error{nil, ErrClosed, &TurnError{Code: "other"}} {
			if got := thread.ExplainLimit(t.Context(), err); got != err {
				t.Errorf("%v became %v", err, got)
			}
		}
		explain := func(answer func(heard)) error {
			var got error
			done := async(func() error {
				got = thread.ExplainLimit(t.Context(), bare)
				return nil
			})
			answer(p.expect(methodRateLimitsRead))
			<-done
			return got
		}
		if got := explain(func(h heard) { p.refuse(h, -32600, "no account") }); got != bare {
			t.Errorf("refused: %v", got)
		}
		if got := explain(func(h heard) { p.answer(h, `{"rateLimits":{"primary":null}}`) }); got != bare {
			t.Errorf("unknown: %v", got)
		}
		got := explain(func(h heard) {
			p.answer(h, `{"rateLimits":{"primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":4000000000}}}`)
		})
		check := func(got error) {
			t.Helper()
			var failed *TurnError
			if !errors.As(got, &failed) || !failed.ResetsAt.Equal(time.Unix(4_000_000_000, 0)) || failed.Message != "spent" || !bare.ResetsAt.IsZero() {
				t.Errorf("got %+v", got)
			}
		}
		check(got)
		check(thread.ExplainLimit(t.Context(), bare)) // without another call
		p.silent()
	})
}

func TestResetIn(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 5, 44, 0, time.Local)
	for message, want := range map[string]time.Time{
		"You’ve hit your usage limit. Visit a page or try again at 8:07 AM.": time.Date(2026, 11, 22, 8, 8, 0, 0, time.Local),
		"try again at 8:05 AM.":                      time.Date(2026, 11, 22, 8, 6, 0, 0, time.Local),
		"try again at 8:04 AM.":                      time.Date(2026, 11, 23, 8, 5, 0, 0, time.Local),
		"try again at 12:30 PM.":                     time.Date(2026, 11, 22, 12, 31, 0, 0, time.Local),
		"try again at Nov 23rd, 2026 2:05 PM.":       time.Date(2026, 11, 23, 14, 6, 0, 0, time.Local),
		"or try again at Dec 1st, 2026 8:05 AM.":     time.Date(2026, 12, 1, 8, 6, 0, 0, time.Local),
		"try again at Nov 21st, 2026 8:05 AM.":       {}, // it is over
		"try again at Nov 31st, 2026 8:05 AM.":       {},
		"try again at 31:05 AM.":                     {},
		"try again later":                            {},
		"try again at Nov 23rd, 99999999 2:05 PM":    {},
		"The usage limit has been reached (8:07 AM)": {},
	} {
		at, ok := parseResetTime(message, now)
		if ok == want.IsZero() || ok && !at.Equal(want) {
			t.Errorf("%s: %v %t, want %v", message, at, ok, want)
		}
	}
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

// TestAllowed checks that the permission to use the plan is that of the last answer to a
// question, and that credits stay known.
func TestAllowed(t *testing.T) {
	var l limits
	allowed := true
	l.update(`{"limitId":"codex","credits":{"hasCredits":true,"unlimited":false,"balance":"5.39"}}`, &allowed, &ResetCredits{Available: 2})
	if now, ok := l.snapshot(); !ok || now.Allowed == nil || !*now.Allowed || *now.Credits != (Credits{Has: true, Balance: "5.39"}) {
		t.Errorf("%+v", now)
	}
	l.update(`{"limitId":"codex","primary":{"usedPercent":100,"resetsAt":9223372036854775807,"windowDurationMins":9223372036854775807},"credits":null}`, nil, nil)
	if now, _ := l.snapshot(); now.Allowed != nil || now.Credits == nil || now.ResetCredits.Available != 2 || now.Primary == nil || !now.Primary.ResetsAt.IsZero() || now.Primary.Name() != "unknown" {
		t.Errorf("%+v", now)
	}
}

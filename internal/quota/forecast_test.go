package quota

import (
	"testing"
	"time"
)

// TestForecast uses a limit at a constant rate, and compares what is foreseen with what
// happens.
func TestForecast(t *testing.T) {
	for name, c := range map[string]struct {
		window Window
		max    int64
		every  time.Duration // one request
		warm   time.Duration // for how long before the forecast
	}{
		"sliding, soon":         {sliding(t, time.Hour), 100, 20 * time.Second, 20 * time.Minute},
		"sliding, never":        {sliding(t, time.Hour), 100, time.Minute, 50 * time.Minute},
		"sliding, after a rest": {sliding(t, time.Hour), 61, time.Minute, 90 * time.Minute},
		"day, soon":             {calendar(t, day), 1000, 30 * time.Second, 5 * time.Hour},
		"day, not before":       {calendar(t, day), 1000, 90 * time.Second, 5 * time.Hour},
		"month":                 {calendar(t, month), 20_000, 2 * time.Minute, 4 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			k := &clock{now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
			l := NewLimits(NewLedger(k.Now), 0, false)
			key := &Key{Account: "k", Limits: []Limit{{Requests, c.max, c.window}}}
			use := func(until func() bool) bool {
				for range 100_000 {
					if until() {
						return true
					}
					if begin(l, key) != nil {
						return false
					}
					k.move(c.every)
				}
				return true
			}
			begin := k.now
			use(func() bool { return k.now.Sub(begin) >= c.warm })
			now, state := k.now, statesOf(l, key)[0]
			horizon := now.Add(2 * c.window.length)
			if c.window.period != "" {
				horizon = state.Resets
			}
			lasts := use(func() bool { return !k.now.Before(horizon) })
			if lasts != state.Exhausted.IsZero() {
				t.Fatalf("at %s foreseen %s, until %s: %v", now, state.Exhausted, k.now, lasts)
			}
			if !lasts {
				off := k.now.Sub(state.Exhausted).Abs()
				if allowed := k.now.Sub(now)/10 + c.window.partLength(); off > allowed {
					t.Errorf("at %s foreseen %s, was %s", now, state.Exhausted, k.now)
				}
			}
		})
	}
	l := NewLimits(NewLedger(time.Now), 0, false)
	key := &Key{Account: "k", Limits: []Limit{{Requests, 1, sliding(t, time.Hour)}}}
	if s := statesOf(l, key)[0]; !s.Exhausted.IsZero() {
		t.Errorf("nothing is used: %+v", s)
	}
	_ = begin(l, key)
	if s := statesOf(l, key)[0]; s.Exhausted.IsZero() || s.Exhausted.After(time.Now()) {
		t.Errorf("all is used: %+v", s)
	}
}

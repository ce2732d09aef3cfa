package usage

import (
	"testing"
	"time"
)

// TestClockSetBack checks that turns are counted in their hour and day after a
// clock was far ahead, in the same book and in a stored one.
func TestClockSetBack(t *testing.T) {
	now := time.Now()
	at := func(b *Book, when time.Time) {
		r := record("ann", "1")
		r.Time = when
		b.Add(r)
	}
	ahead := New()
	at(ahead, now.AddDate(70, 0, 0))
	later := New()
	at(later, now)
	restore(t, later, ahead)
	at(later, now)
	at(ahead, now)
	at(ahead, now)
	both := New()
	at(both, now)
	at(both, now)
	b := both.account("ben")
	b.Hours = b.Hours.add(hours, now.AddDate(70, 0, 0).Unix(), Totals{Requests: 1})
	for name, a := range map[string]Account{"one book": ahead.Account("ann"), "stored": later.Account("ann"), "all": both.Account(Everybody)} {
		if len(a.ByHour) != 1 || a.ByHour[0].Requests != 2 || a.ByHour[0].Start != hours.partStart(now.Unix()) {
			t.Errorf("%s: by hour %+v", name, a.ByHour)
		}
	}
	// A step back over an hour's end is no jump.
	steps := New()
	hour := time.Unix(hours.partStart(now.Unix()), 0)
	at(steps, hour.Add(time.Second))
	at(steps, hour.Add(-time.Second))
	if s := steps.accounts["ann"].Hours; len(s) != 2 || s[0].Requests != 1 || s[1].Requests != 1 {
		t.Errorf("%+v", s)
	}
}

package quota

import (
	"maps"
	"sync"
	"time"
)

// The thresholds, in percent of a limit.
const (
	nearPercent = 80
	fullPercent = 100
)

// maxRemembered bounds the limits that [Thresholds] remembers. When the bound is reached,
// Thresholds forgets the limits whose windows have ended. If that is not enough, it forgets all
// limits, and Pass may return a threshold a second time.
const maxRemembered = 10_000

// Thresholds remembers which thresholds were passed, so that Pass returns each once in a window.
// The zero value is ready to use, and the methods are safe for concurrent use.
type Thresholds struct {
	mu      sync.Mutex
	byLimit map[string]passedThreshold // by the names of the limits
}

// passedThreshold is the highest threshold that was passed in a window.
type passedThreshold struct {
	percent int
	until   time.Time // the end of the window
}

// Forget forgets all limits, so Pass may return each threshold again.
func (t *Thresholds) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.byLimit)
}

// Pass returns the threshold that a limit has passed: 80 or 100 percent. used is in percent of the
// limit. resets is the end of the limit's window. Pass returns 0 if used is below 80, if the window
// has ended, or if Pass has returned this threshold or a higher one in the same window.
func (t *Thresholds) Pass(limit string, used float64, resets, now time.Time) (percent int) {
	switch {
	case !resets.After(now) || used < nearPercent:
		return 0
	case used >= fullPercent:
		percent = fullPercent
	default:
		percent = nearPercent
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.byLimit[limit]; now.Before(last.until) && percent <= last.percent {
		return 0
	}
	if t.byLimit == nil {
		t.byLimit = make(map[string]passedThreshold)
	}
	if len(t.byLimit) >= maxRemembered {
		maps.DeleteFunc(t.byLimit, func(_ string, p passedThreshold) bool { return !now.Before(p.until) })
	}
	if len(t.byLimit) >= maxRemembered {
		clear(t.byLimit)
	}
	t.byLimit[limit] = passedThreshold{percent, resets}
	return percent
}

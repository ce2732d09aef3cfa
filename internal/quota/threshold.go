package quota

import (
	"maps"
	"sync"
	"time"
)

// The thresholds, in percent of a limit.
const (
	nearly  = 80
	reached = 100
)

// maxPassed bounds the limits whose thresholds are remembered. If there are more, all are forgotten,
// and Pass may return a threshold a second time.
const maxPassed = 10_000

// Thresholds remembers which thresholds of limits were passed, so that in each window Pass returns
// a threshold only once. Its zero value is ready to use, and its methods are safe for concurrent
// use.
type Thresholds struct {
	mu     sync.Mutex
	passed map[string]passed // by the names of the limits
}

// passed is the highest threshold that was passed in a window.
type passed struct {
	percent int
	until   time.Time // the end of the window
}

// Forget forgets all limits: each threshold may be returned again.
func (t *Thresholds) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.passed)
}

// Pass returns the threshold that a limit has passed: 80 or 100 percent. used is in percent of the
// limit. resets is the end of its window. Pass returns 0 if used is below 80, if the window has
// ended, or if Pass has returned this threshold or a higher one in the same window.
func (t *Thresholds) Pass(limit string, used float64, resets, now time.Time) (percent int) {
	switch {
	case !resets.After(now) || used < nearly:
		return 0
	case used >= reached:
		percent = reached
	default:
		percent = nearly
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.passed[limit]; now.Before(last.until) && percent <= last.percent {
		return 0
	}
	if t.passed == nil {
		t.passed = make(map[string]passed)
	}
	if len(t.passed) >= maxPassed {
		maps.DeleteFunc(t.passed, func(_ string, p passed) bool { return !now.Before(p.until) })
	}
	if len(t.passed) >= maxPassed {
		clear(t.passed)
	}
	t.passed[limit] = passed{percent, resets}
	return percent
}

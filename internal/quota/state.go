package quota

import (
	"slices"
	"time"
)

// State is how much of a limit is used.
type State struct {
	Limit
	Used   int64     // including reserved tokens
	Resets time.Time // when the whole limit is free again if nothing more is used; zero: it is free now
	// Exhausted is when nothing of the limit will be left, if its use continues at the present
	// rate. It is zero if no forecast was made, or if the limit will not be reached. For a period
	// such as a day, it is also zero if the limit will not be reached before the period ends.
	Exhausted time.Time
}

// Remaining returns how much of the limit is left.
func (s State) Remaining() int64 { return max(0, s.Max-s.Used) }

// states returns the states of the limits of a key, in the order of the limits. It sets Exhausted
// only if forecasts is true.
func (a *account) states(k *Key, now time.Time, forecasts bool) []State {
	states := make([]State, len(k.Limits))
	for i, limit := range k.Limits {
		states[i] = a.state(limit, now)
		if used := states[i].Used; forecasts && used > 0 {
			states[i].Exhausted = forecast(limit, a.used[measure{limit.Unit, limit.Window}], used, now)
		}
	}
	return states
}

// state returns the state of a limit. A nil account has used nothing.
func (a *account) state(limit Limit, now time.Time) State {
	s := State{Limit: limit}
	if a == nil {
		return s
	}
	if s.Used = a.usedOf(limit, now); s.Used == 0 {
		return s
	}
	if limit.Unit == Tokens && a.reserved > 0 {
		s.Resets = now.Add(reservedWait)
	}
	if c := a.used[measure{limit.Unit, limit.Window}]; len(c) > 0 {
		if at := limit.Window.partExpiry(c[len(c)-1].part); at.After(s.Resets) {
			s.Resets = at
		}
	}
	return s
}

// recentParts is the number of parts of a window, the current one included, from which the
// present rate is computed.
const recentParts = 4

// forecast returns when a limit will be reached at the present rate. parts are the counts in the
// window of the limit. used is the sum of parts, plus the reserved tokens. If the limit is reached
// already, the result is the present time. If it will not be reached, the result is zero.
func forecast(limit Limit, parts counts, used int64, now time.Time) time.Time {
	if used >= limit.Max {
		return now
	}
	w := limit.Window
	from := max(w.partAt(now)-recentParts+1, w.oldestPart(now))
	elapsed, recent := now.Sub(w.partStart(from)).Seconds(), parts.sum(from)
	if elapsed <= 0 || recent <= 0 {
		return time.Time{}
	}
	rate := float64(recent) / elapsed // per second
	// The use grows at the rate, and falls each time a part leaves the window.
	at := now
	for _, c := range append(slices.Clone(parts), count{part: w.partAt(now)}) {
		until := w.partExpiry(c.part)
		needed := time.Duration(float64(limit.Max-used) / rate * float64(time.Second))
		if needed <= until.Sub(at) && needed >= 0 {
			return at.Add(needed)
		}
		if w.period != "" {
			return time.Time{} // the period ends before the limit is reached
		}
		used += int64(rate*until.Sub(at).Seconds()) - c.n
		at = until
	}
	return time.Time{}
}

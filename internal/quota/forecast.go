package quota

import (
	"slices"
	"time"
)

// recentParts are the parts of a window, the current one included, whose counts are the
// present rate.
const recentParts = 4

// forecast returns when a limit will be reached at the present rate, by the counts of its
// parts and what is used with these; zero if it will not. A limit that is reached is so
// now.
func forecast(limit Limit, parts counts, used int64, now time.Time) time.Time {
	if used >= limit.Max {
		return now
	}
	w := limit.Window
	from := max(w.at(now)-recentParts+1, w.oldest(now))
	elapsed := now.Sub(w.start(from)).Seconds()
	if elapsed <= 0 {
		return time.Time{}
	}
	rate := float64(parts.sum(from)) / elapsed // a second
	if rate <= 0 {
		return time.Time{}
	}
	// After each part that leaves, the use grows at the rate until the next one leaves.
	at := now
	for _, c := range append(slices.Clone(parts), count{}) {
		until := w.leaves(c.part)
		if c == (count{}) {
			until = w.leaves(w.at(now))
		}
		needed := time.Duration(float64(limit.Max-used) / rate * float64(time.Second))
		if needed <= until.Sub(at) && needed >= 0 {
			return at.Add(needed)
		}
		if w.period != "" {
			return time.Time{} // all of it is free again then
		}
		used += int64(rate*until.Sub(at).Seconds()) - c.n
		at = until
	}
	return time.Time{}
}

package usage

import (
	"cmp"
	"slices"
	"time"
)

// span is the division of time in a [series]: hours or days.
type span struct {
	width    int64 // of one part, in seconds
	maxParts int64 // number of parts kept, including the newest
}

var (
	hours = span{int64(time.Hour / time.Second), 48}
	days  = span{int64(24 * time.Hour / time.Second), 62}
)

// endOfTime is a time after all parts, in Unix seconds.
const endOfTime = 1 << 62

// partStart returns the start of the part that contains a time. All times are in Unix seconds.
func (s span) partStart(timestamp int64) int64 { return timestamp - timestamp%s.width }

// oldestStart returns the start of the oldest part to keep, if the newest part contains the time.
func (s span) oldestStart(timestamp int64) int64 {
	return s.partStart(timestamp) - (s.maxParts-1)*s.width
}

// TimeTotals are the totals of one hour or day.
type TimeTotals struct {
	Start int64 `json:"start"` // in Unix seconds
	Totals
}

// series holds the totals of hours or days in order. Hours or days without turns are left out.
type series []TimeTotals

// add adds t to the part that contains timestamp, unless that part is too old to be kept.
func (s series) add(by span, timestamp int64, t Totals) series {
	start := by.partStart(timestamp)
	i, found := s.find(start)
	if !found {
		if len(s) > 0 && start < by.oldestStart(s[len(s)-1].Start) {
			return s
		}
		s = slices.Insert(s, i, TimeTotals{Start: start})
	}
	if s[i].add(t); found {
		return s
	}
	first, _ := s.find(by.oldestStart(s[len(s)-1].Start))
	return s[first:]
}

// dropFuture drops the parts (hours or days) that lie in the future, except the next part. Such
// parts come from a clock that was ahead. They would make every new part too old to be kept.
func (s series) dropFuture(by span, now int64) series {
	end, _ := s.find(by.partStart(now) + by.width + 1)
	return s[:end]
}

// find returns the index of the part that begins at start, or the index at which to insert it.
func (s series) find(start int64) (i int, found bool) {
	return slices.BinarySearchFunc(s, start, func(t TimeTotals, start int64) int { return cmp.Compare(t.Start, start) })
}

// recent returns a copy of the parts that are neither too old, nor before since, nor in the future (dropFuture).
func (s series) recent(by span, since, now int64) []TimeTotals {
	s = s.dropFuture(by, now)
	first, _ := s.find(max(by.oldestStart(now), since))
	return append([]TimeTotals{}, s[first:]...)
}

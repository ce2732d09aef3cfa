package usage

import (
	"slices"
	"time"
)

// span is how a [series] divides time.
type span struct {
	width int64 // of one part, in seconds
	keep  int64 // parts, up to the newest
}

var (
	hours = span{int64(time.Hour / time.Second), 48}
	days  = span{int64(24 * time.Hour / time.Second), 62}
)

// begin is where the part with a time begins, and oldest where the oldest part
// begins that is kept beside it.
func (s span) begin(at int64) int64  { return at - at%s.width }
func (s span) oldest(at int64) int64 { return s.begin(at) - (s.keep-1)*s.width }

// TimeTotals are those of one hour or day.
type TimeTotals struct {
	Start int64 `json:"start"` // Unix time in seconds
	Totals
}

// series are totals over time, by rising start. Parts without turns are left
// out.
type series []TimeTotals

// add adds totals at a time. Those older than what is kept are dropped.
func (s series) add(by span, at int64, t Totals) series {
	start := by.begin(at)
	i := len(s)
	for i > 0 && s[i-1].Start >= start { // almost always the last one
		i--
	}
	switch {
	case i < len(s) && s[i].Start == start:
		s[i].add(t)
		return s
	case len(s) > 0 && start < by.oldest(s[len(s)-1].Start):
		return s
	}
	s = slices.Insert(s, i, TimeTotals{start, t})
	return s[s.before(by.oldest(s[len(s)-1].Start)):]
}

// upTo drops what is of a later time than now, by more than a part: a clock was
// wrong then, and what is counted from now on would be older than what is kept.
func (s series) upTo(by span, now int64) series {
	return s[:s.before(by.begin(now)+by.width+1)]
}

// before counts the parts that begin before a time.
func (s series) before(start int64) int {
	n := 0
	for n < len(s) && s[n].Start < start {
		n++
	}
	return n
}

// recent copies what is not too old by now.
func (s series) recent(by span, now int64) []TimeTotals {
	s = s.upTo(by, now)
	return append([]TimeTotals{}, s[s.before(by.oldest(now)):]...)
}

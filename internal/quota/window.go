package quota

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The periods of the calendar, in UTC. A week begins on Monday.
const (
	day   = "day"
	week  = "week"
	month = "month"
)

// periods have the length of their parts, and how long a store keeps the count of a part.
var periods = map[string]struct{ part, keep time.Duration }{
	day:   {time.Hour, 25 * time.Hour},
	week:  {6 * time.Hour, 8 * 24 * time.Hour},
	month: {24 * time.Hour, 32 * 24 * time.Hour},
}

// The shortest and the longest window that slides.
const (
	minLength = time.Second
	maxLength = 366 * 24 * time.Hour
)

// partsPerWindow is how many parts a sliding window has. A part counts until the whole part has left the
// window, so a request or a token counts at most one part longer than the window.
const partsPerWindow = 20

// Window is the time for which a limit applies. It is a period of the calendar, a sliding window, or
// a window of a plan. At the end of a period, the counts begin at 0 again. With a sliding window, the
// limit applies to any stretch of time that has the length of the window. A window of a plan ends
// once; what is counted later is not counted in it. The zero value is not valid.
type Window struct {
	period string        // of the calendar, or empty
	length time.Duration // of a sliding window; 0 for a period
	name   string        // of a window of a plan, which slides, but ends before anything has left it; or empty
	ends   int64         // when the window of a plan ends, in Unix seconds
}

// PlanWindow returns a window of a plan. The name, such as "5h codex 07e99801", tells apart the windows that
// apply at the same time. Its last word is the login.
func PlanWindow(name string, ends time.Time) Window {
	return Window{length: 200 * maxLength, name: name, ends: ends.Unix()}
}

// ParseWindow reads day, week or month, or a length in the form of [time.ParseDuration].
func ParseWindow(text string) (Window, error) {
	if _, ok := periods[text]; ok {
		return Window{period: text}, nil
	}
	length, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return Window{}, errors.New("it is neither day, week or month, nor a duration such as 1m or 5h")
	case length < minLength || length > maxLength:
		return Window{}, fmt.Errorf("a window must be from %s to 366 days long", minLength)
	}
	return Window{length: length}, nil
}

// String returns the window as it is written in a file of keys, or the name of a window of a plan.
func (w Window) String() string {
	if name := w.period + w.name; name != "" {
		return name
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(w.length.String())
}

// login returns the last word of the name of a plan's window, its login; empty for other windows.
func (w Window) login() string { return w.name[strings.LastIndexByte(w.name, ' ')+1:] }

// id returns what identifies the counts of the window in a store.
func (w Window) id() string {
	if w.name != "" {
		return strconv.FormatInt(w.ends, 10) + " " + w.name
	}
	return w.String()
}

// partLength returns the length of a part, in whole microseconds. A period of the calendar has a whole
// number of parts.
func (w Window) partLength() time.Duration {
	if w.period != "" {
		return periods[w.period].part
	}
	const unit = partsPerWindow * time.Microsecond
	return (w.length + unit - 1) / unit * time.Microsecond
}

// keepTime returns how long a store keeps a part's count. No limit needs it after that.
func (w Window) keepTime() time.Duration {
	switch {
	case w.period != "":
		return periods[w.period].keep
	case w.name != "":
		return max(0, time.Until(time.Unix(w.ends, 0))) + periods[day].keep // the store may have another clock
	}
	return (partsPerWindow + 2) * w.partLength()
}

func (w Window) partAt(t time.Time) int64 {
	n, length := t.UnixNano(), int64(w.partLength())
	if n < 0 {
		n -= length - 1 // so that the division rounds down
	}
	return n / length
}

func (w Window) partStart(part int64) time.Time { return time.Unix(0, part*int64(w.partLength())) }

// oldestPart returns the number of the oldest part that still counts at the time now.
func (w Window) oldestPart(now time.Time) int64 {
	switch {
	case w.period != "":
		return w.partAt(w.periodStart(now, 0))
	case w.name != "" && now.Unix() >= w.ends:
		return w.partAt(now) + 1 // no part counts
	}
	return w.partAt(now) - partsPerWindow
}

// periodStart returns when a calendar period of w begins: with offset 0, the period that contains
// t; with offset 1, the period after that.
func (w Window) periodStart(t time.Time, offset int) time.Time {
	t = t.UTC()
	year, m, d := t.Date()
	switch w.period {
	case day:
		d += offset
	case week:
		d += 7*offset - (int(t.Weekday())+6)%7
	case month:
		m, d = m+time.Month(offset), 1
	}
	return time.Date(year, m, d, 0, 0, 0, 0, time.UTC)
}

func (w Window) partExpiry(part int64) time.Time {
	switch {
	case w.period != "":
		return w.periodStart(w.partStart(part), 1)
	case w.name != "":
		return time.Unix(w.ends, 0)
	}
	return w.partStart(part + partsPerWindow + 1)
}

type count struct {
	part int64
	n    int64
}

// counts are the counts of a window's parts, in the order of the parts. Parts that counted nothing are
// left out.
type counts []count

// update drops the parts that no longer count. Counts of the future, which come from a clock that was set
// back, move to the current part: so they are not lost, and do not count for longer than a window.
func (c counts) update(w Window, now time.Time) counts {
	current, future := w.partAt(now), int64(0)
	first, _ := c.find(w.oldestPart(now))
	end, _ := c.find(current + 1)
	for _, later := range c[end:] {
		future += later.n
	}
	return c[first:end].add(current, future)
}

// find returns the index of a part or, if it is not found, the index at which to insert it.
func (c counts) find(part int64) (i int, found bool) {
	return slices.BinarySearchFunc(c, part, func(c count, part int64) int { return cmp.Compare(c.part, part) })
}

func (c counts) add(part, n int64) counts {
	i, found := c.find(part)
	switch {
	case n == 0:
		return c
	case found:
		c[i].n += n
		return c
	}
	return slices.Insert(c, i, count{part, n})
}

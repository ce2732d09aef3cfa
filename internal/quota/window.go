package quota

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// The periods of the calendar, in UTC. A week begins on Monday.
const (
	day   = "day"
	week  = "week"
	month = "month"
)

// The shortest and the longest window that slides.
const (
	minLength = time.Second
	maxLength = 366 * 24 * time.Hour
)

// parts is into how many parts a window that slides is divided. What is counted stays
// counted for the length of the window and up to one part more.
const parts = 20

// Window is the time for which a limit applies: a period of the calendar, after which
// counting begins anew, or a length that slides, so that the limit holds in every stretch
// of time of that length. The zero value is not valid.
type Window struct {
	period string        // empty: it slides
	length time.Duration // of one that slides
}

// Sliding returns a window of a length from a second to 366 days.
func Sliding(length time.Duration) (Window, error) {
	if length < minLength || length > maxLength {
		return Window{}, fmt.Errorf("a window must be from %s to 366 days long", minLength)
	}
	return Window{length: length}, nil
}

// ParseWindow reads a window as it is written in a file of keys: day, week or month, or a
// length such as 1m, 5h or 7d.
func ParseWindow(text string) (Window, error) {
	if text == day || text == week || text == month {
		return Window{period: text}, nil
	}
	length, err := caddy.ParseDuration(text)
	if err != nil {
		return Window{}, errors.New("it is neither day, week or month, nor a duration such as 1m, 5h or 7d")
	}
	return Sliding(length)
}

// String returns the window as it is written in a file of keys.
func (w Window) String() string {
	if w.period != "" {
		return w.period
	}
	s := w.length.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// part returns the length of a part. The parts of a period divide it.
func (w Window) part() time.Duration {
	switch w.period {
	case day:
		return time.Hour
	case week:
		return 6 * time.Hour
	case month:
		return 24 * time.Hour
	}
	return (w.length + parts - 1) / parts
}

// at returns the number of the part that contains a time.
func (w Window) at(t time.Time) int64 {
	n, part := t.UnixNano(), int64(w.part())
	if n < 0 {
		n -= part - 1
	}
	return n / part
}

// start returns when a part begins.
func (w Window) start(part int64) time.Time { return time.Unix(0, part*int64(w.part())) }

// oldest returns the number of the first part that counts at a time.
func (w Window) oldest(now time.Time) int64 {
	if w.period == "" {
		return w.at(now) - parts
	}
	return w.at(w.begin(now))
}

// begin returns when the period that contains a time began.
func (w Window) begin(now time.Time) time.Time {
	now = now.UTC()
	year, m, d := now.Date()
	switch w.period {
	case week:
		d -= (int(now.Weekday()) + 6) % 7
	case month:
		d = 1
	}
	return time.Date(year, m, d, 0, 0, 0, 0, time.UTC)
}

// next returns when the period that contains a time ends.
func (w Window) next(now time.Time) time.Time {
	begin := w.begin(now)
	switch w.period {
	case week:
		return begin.AddDate(0, 0, 7)
	case month:
		return begin.AddDate(0, 1, 0)
	}
	return begin.AddDate(0, 0, 1)
}

// leaves returns when a part no longer counts.
func (w Window) leaves(part int64) time.Time {
	if w.period == "" {
		return w.start(part + parts + 1)
	}
	return w.next(w.start(part))
}

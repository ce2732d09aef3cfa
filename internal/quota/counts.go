package quota

import (
	"slices"
	"time"
)

// count is what was counted in one part of a window.
type count struct {
	part int64
	n    int64
}

// counts are the counts of the parts of a window, by rising part. Parts without any are
// left out.
type counts []count

// update drops the parts that no longer count. What lies in the future, since the clock
// was set back, counts as of now: so a clock that changes frees nothing early, and nothing
// counts for longer than a window.
func (c counts) update(w Window, now time.Time) counts {
	current, ahead := w.at(now), int64(0)
	for len(c) > 0 && c[len(c)-1].part > current {
		ahead += c[len(c)-1].n
		c = c[:len(c)-1]
	}
	oldest := w.oldest(now)
	first := 0
	for first < len(c) && c[first].part < oldest {
		first++
	}
	return c[first:].add(current, ahead)
}

// add counts n in a part.
func (c counts) add(part, n int64) counts {
	if n == 0 {
		return c
	}
	i := len(c)
	for i > 0 && c[i-1].part >= part {
		i--
	}
	if i < len(c) && c[i].part == part {
		c[i].n += n
		return c
	}
	return slices.Insert(c, i, count{part, n})
}

// sum returns the counts of the parts from oldest on.
func (c counts) sum(oldest int64) (n int64) {
	for _, count := range c {
		if count.part >= oldest {
			n += count.n
		}
	}
	return n
}

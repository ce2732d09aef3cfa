package quota

import (
	"fmt"
	"testing"
	"time"
)

// TestThresholds checks that each threshold is returned once a window, and again in the next one.
func TestThresholds(t *testing.T) {
	begin := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	var all Thresholds
	for i, step := range []struct {
		limit  string
		minute time.Duration
		used   float64
		resets time.Duration
		want   int
	}{
		{"a", 0, 79.9, 60, 0},
		{"a", 1, 80, 60, 80},
		{"a", 2, 90, 60, 0},
		{"b", 2, 99, 60, 80}, // another limit has its own
		{"a", 3, 70, 60, 0},  // in a window that slides, use falls
		{"a", 4, 85, 60, 0},  // and rises again
		{"a", 5, 130, 60, 100},
		{"a", 6, 130, 60, 0},
		{"a", 7, 85, 60, 0},
		{"a", 59, 100, 60, 0},
		{"a", 60, 100, 60, 0},    // known from before the reset
		{"a", 61, 100, 120, 100}, // at once; 80 is not told after it
		{"a", 62, 81, 120, 0},
		{"b", 62, 81, 120, 80},
	} {
		at := begin.Add(step.minute * time.Minute)
		if got := all.Pass(step.limit, step.used, begin.Add(step.resets*time.Minute), at); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
}

// TestThresholdsForgotten checks that a window that was reset before its end has its thresholds again.
func TestThresholdsForgotten(t *testing.T) {
	now := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	var all Thresholds
	for range 2 {
		if got := all.Pass("a", 80, now.Add(time.Hour), now); got != 80 {
			t.Errorf("%d, want 80", got)
		}
		all.Forget()
	}
}

// A limit is remembered as long as there is room, and there is an end to it.
func TestThresholdsBounded(t *testing.T) {
	now := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	var all Thresholds
	all.Pass("lasts", 80, now.Add(time.Hour), now)
	for i := range maxRemembered - 1 {
		all.Pass(fmt.Sprint(i), 80, now.Add(time.Minute), now)
	}
	later := now.Add(time.Minute)
	if all.Pass("more", 80, later.Add(time.Hour), later) != 80 || all.Pass("lasts", 80, now.Add(time.Hour), later) != 0 || len(all.byLimit) != 2 {
		t.Errorf("%d are remembered after the others have ended", len(all.byLimit))
	}
	for i := range 2 * maxRemembered {
		all.Pass(fmt.Sprint(i), 80, later.Add(time.Hour), later)
	}
	if len(all.byLimit) > maxRemembered {
		t.Errorf("%d are remembered", len(all.byLimit))
	}
}

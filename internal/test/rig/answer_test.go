package rig

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	times := []time.Duration{5, 1, 4, 2, 3}
	for percent, want := range map[int]time.Duration{0: 1, 50: 3, 95: 5, 100: 5} {
		if got := Percentile(times, percent); got != want {
			t.Errorf("%d of 100 are within %d, want %d", percent, got, want)
		}
	}
	if Percentile(nil, 50) != 0 {
		t.Error("nothing takes time")
	}
}

package appserver

import (
	"math"
	"testing"
	"time"
)

func TestBackoffDoubles(t *testing.T) {
	b := newBackoff()
	for _, most := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
		3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second,
	} {
		if pause := b.next(); pause > most || pause < most-most/4 {
			t.Errorf("after %d failures the pause is %s, want %s or up to a quarter less", b.failures-1, pause, most)
		}
	}
	b.failures = math.MaxInt32
	if pause := b.next(); pause > b.most || pause <= 0 {
		t.Errorf("after very many failures the pause is %s", pause)
	}
}

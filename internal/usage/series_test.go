package usage

import (
	"math/rand/v2"
	"testing"
)

// A turn is counted in its part, or not at all if that is too old, in whatever order turns come.
func TestSeries(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		var s series
		want, newest := make(map[int64]int64), int64(0)
		for range 300 {
			at := 1_000_000 + random.Int64N(70)*hours.width + random.Int64N(hours.width)
			newest = max(newest, at)
			want[hours.partStart(at)]++
			s = s.add(hours, at, Totals{Requests: 1})
			if len(s) > int(hours.maxParts) {
				t.Fatalf("%d parts", len(s))
			}
		}
		last := int64(0)
		for _, part := range s {
			if part.Start <= last || part.Start < hours.oldestStart(newest) {
				t.Fatalf("seed %d: %d after %d, newest %d", seed, part.Start, last, newest)
			}
			last = part.Start
			// A part that was dropped and came again counts from then on.
			if part.Requests > want[part.Start] || part.Requests == 0 {
				t.Fatalf("seed %d: %d requests at %d, want %d", seed, part.Requests, part.Start, want[part.Start])
			}
		}
		if s[len(s)-1].Start != hours.partStart(newest) || s[len(s)-1].Requests != want[hours.partStart(newest)] {
			t.Fatalf("seed %d: the newest is %+v", seed, s[len(s)-1])
		}
	}
}

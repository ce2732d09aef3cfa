package main

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// lostOfHundred is the percentage of attempts that may be lost with the listener of
// an old configuration, in the kernel or in net/http. Every Caddy loses some.
const lostOfHundred = 4

func (s *soak) report(took time.Duration) {
	fmt.Printf("\n%s: %s; %s\n", took.Round(time.Second), s.counts.line(), s.trouble.line())
	for _, kind := range slices.Sorted(maps.Keys(s.counts.byKind)) {
		fmt.Printf("  %-24s %d\n", kind, s.counts.byKind[kind])
	}
	for _, code := range slices.Sorted(maps.Keys(s.counts.failures)) {
		fmt.Printf("  failed with %-21s %d\n", code, s.counts.failures[code])
	}
	s.outages.report()
	s.meters.report()
}

// verdict prints what was found, and returns an error if anything was wrong.
func (s *soak) verdict() error {
	ok := s.counts.faults == 0 && s.counts.whole > 0
	for _, m := range measures {
		first, last, flat := s.samples.growth(m)
		word := "flat"
		if !flat {
			word, ok = "GREW", false
		}
		fmt.Printf("  %-36s %8.1f in the first third, %8.1f in the last: %s\n", m.name, first, last, word)
	}
	if s.counts.lost*100 > s.counts.opened*lostOfHundred {
		fmt.Printf("  more than %d of a hundred attempts were lost\n", lostOfHundred)
		ok = false
	}
	if !ok {
		return fmt.Errorf("the verdict is bad: %d faults", s.counts.faults)
	}
	fmt.Println("verdict: all is well")
	return nil
}

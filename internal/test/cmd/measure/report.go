package main

import (
	"fmt"
	"slices"
	"time"
)

// report prints the times of the turns and the difference of two readings.
func report(o options, r *result, before, after usage) {
	caddy, codex := after.caddy-before.caddy, after.codex-before.codex
	name := "Caddy"
	if !o.unload {
		name = "this program with the model"
	}
	deltas := float64(o.turns*o.deltas) / 1000
	fmt.Printf("%d turns of %d deltas, %d at once: %s, %d chunks\n", o.turns, o.deltas, o.atOnce, r.took.Round(time.Millisecond), r.chunks)
	fmt.Printf("CPU for 1,000 deltas: %s %.2f ms, codex %.2f ms: %.1f %%\n",
		name, ms(caddy)/deltas, ms(codex)/deltas, 100*ms(caddy)/ms(codex))
	fmt.Println("first token:", spread(r.turns, func(t timing) time.Duration { return t.first }))
	whole := func(t timing) time.Duration { return t.whole }
	fmt.Println("whole turn: ", spread(r.turns, whole))
	if tenth := len(r.turns) / 10; tenth > 0 {
		fmt.Printf("whole turn, the first tenth: %s\n", spread(r.turns[:tenth], whole))
		fmt.Printf("whole turn, the last tenth:  %s\n", spread(r.turns[len(r.turns)-tenth:], whole))
	}
	fmt.Printf("peak memory: %s %d MB, codex %d MB (before the load %d MB), all of codex together %d MB\n",
		name, after.caddyPeak/1024, after.codexPeak/1024, before.codexPeak/1024, after.allPeak/1024)
}

// spread returns the median and higher percentiles of a time of the turns.
func spread(turns []timing, of func(timing) time.Duration) string {
	times := make([]time.Duration, len(turns))
	for i, t := range turns {
		times[i] = of(t).Round(100 * time.Microsecond)
	}
	at := func(percent int) time.Duration { return percentile(times, percent) }
	return fmt.Sprintf("median %s, 95 of 100 within %s, 99 within %s, longest %s", at(50), at(95), at(99), at(100))
}

// percentile returns the time within which so many of 100 are. It sorts times.
func percentile(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[min(len(times)*percent/100, len(times)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

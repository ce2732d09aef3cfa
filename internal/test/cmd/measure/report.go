package main

import (
	"fmt"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// report prints the times of the turns and the difference of two readings.
func report(o options, r *result, before, after usage) {
	caddy, codex := rig.MS(after.caddy-before.caddy), rig.MS(after.codex-before.codex)
	deltas := float64(o.turns*o.deltas) / 1000
	fmt.Printf("%d turns of %d deltas, %d at once: %s, %d chunks\n", o.turns, o.deltas, o.atOnce, r.took.Round(time.Millisecond), r.chunks)
	fmt.Printf("CPU for 1,000 deltas: Caddy %.2f ms, codex %.2f ms: %.1f %%\n", caddy/deltas, codex/deltas, 100*caddy/codex)
	whole := func(a rig.Answer) time.Duration { return a.Whole }
	fmt.Println("first token:", spread(r.answers, func(a rig.Answer) time.Duration { return a.First }))
	fmt.Println("whole turn: ", spread(r.answers, whole))
	if tenth := len(r.answers) / 10; tenth > 0 {
		fmt.Printf("whole turn, the first tenth: %s\n", spread(r.answers[:tenth], whole))
		fmt.Printf("whole turn, the last tenth:  %s\n", spread(r.answers[len(r.answers)-tenth:], whole))
	}
	fmt.Printf("peak memory: Caddy %d MB, codex %d MB (before the load %d MB), all of codex together %d MB\n",
		after.caddyPeak/1024, after.codexPeak/1024, before.codexPeak/1024, after.allPeak/1024)
}

// spread returns the median and higher percentiles of a time of the turns.
func spread(answers []rig.Answer, of func(rig.Answer) time.Duration) string {
	times := make([]time.Duration, len(answers))
	for i, a := range answers {
		times[i] = of(a).Round(100 * time.Microsecond)
	}
	at := func(percent int) time.Duration { return rig.Percentile(times, percent) }
	return fmt.Sprintf("median %s, 95 of 100 within %s, 99 within %s, longest %s", at(50), at(95), at(99), at(100))
}

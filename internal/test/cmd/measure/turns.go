package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// lookEvery is the pause between two readings of the memory.
const lookEvery = 100 * time.Millisecond

// measureTurns runs turns and prints their times and the peaks of the memory.
func measureTurns(ctx context.Context, o options, site *rig.Site) error {
	if _, err := runTurns(ctx, o, site, o.atOnce); err != nil { // warm up
		return err
	}
	ended, peaks := make(chan struct{}), make(chan [2]int)
	go func() { peaks <- watchCodex(site.PID, ended) }()
	start := time.Now()
	answers, err := runTurns(ctx, o, site, o.turns)
	took := time.Since(start)
	close(ended)
	codex := <-peaks
	if err != nil {
		return err
	}
	fmt.Printf("%d turns of %d deltas, %d at once: %s\n", o.turns, o.deltas, o.atOnce, took.Round(time.Millisecond))
	fmt.Println("first token:", spread(answers, func(a rig.Answer) time.Duration { return a.First }))
	whole := func(a rig.Answer) time.Duration { return a.Whole }
	tenth := len(answers) / 10
	fmt.Println("whole turn: ", spread(answers, whole))
	fmt.Println("whole turn, the first tenth:", spread(answers[:tenth], whole))
	fmt.Println("whole turn, the last tenth: ", spread(answers[len(answers)-tenth:], whole))
	fmt.Printf("peak memory: Caddy %d MB, codex %d MB, all of codex together %d MB\n", rig.Memory(site.PID, rig.Peak)>>10, codex[0]>>10, codex[1]>>10)
	return nil
}

// runTurns runs turns, o.atOnce of them concurrently, and returns their answers in the
// order in which they ended.
func runTurns(ctx context.Context, o options, site *rig.Site, turns int) (answers []rig.Answer, err error) {
	want := strings.TrimSpace(strings.Repeat("word ", o.deltas))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.atOnce)
	for range turns {
		group.Go(func() error {
			answer, err := site.Chat(ctx, "chunk=5; say:"+want)
			if err == nil && answer.Text != want {
				err = fmt.Errorf("%d bytes came that differ from the %d that the model sent", len(answer.Text), len(want))
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, answer)
			return err
		})
	}
	err = group.Wait()
	return answers, err
}

// watchCodex returns the peaks of the resident memory, in kB, of one process below Caddy
// and of all together, until ended is closed: an old codex may drain beside a new one.
func watchCodex(caddy int, ended <-chan struct{}) (peaks [2]int) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		all := 0
		for _, pid := range rig.Below(caddy) {
			peaks[0] = max(peaks[0], rig.Memory(pid, rig.Peak))
			all += rig.Memory(pid, rig.Resident)
		}
		peaks[1] = max(peaks[1], all)
		select {
		case <-ticker.C:
		case <-ended:
			return peaks
		}
	}
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

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

// result holds the answers of all turns.
type result struct {
	took    time.Duration
	answers []rig.Answer // in the order in which they ended
	chunks  int
}

// load runs turns, o.atOnce of them concurrently.
func load(ctx context.Context, o options, site *rig.Site, turns int) (*result, error) {
	want := strings.TrimSpace(strings.Repeat("word ", o.deltas))
	var mu sync.Mutex
	total := &result{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.atOnce)
	start := time.Now()
	for range turns {
		group.Go(func() error {
			answer, err := site.Chat(ctx, "chunk=5; say:"+want)
			if err == nil && answer.Text != want {
				err = fmt.Errorf("%d bytes came that differ from the %d that the model sent", len(answer.Text), len(want))
			}
			mu.Lock()
			defer mu.Unlock()
			total.answers = append(total.answers, answer)
			total.chunks += answer.Chunks
			return err
		})
	}
	err := group.Wait()
	total.took = time.Since(start)
	return total, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/rig"
)

// scenario is a load, and what is measured under it.
type scenario struct {
	name string
	run  func(context.Context, options, *server) (figures, error)
	// fresh scenarios need a server that has served nothing.
	fresh bool
}

type figure struct {
	name  string
	value float64
}

type figures []figure

func scenarios() []scenario {
	return []scenario{
		{name: "blast", run: blast},
		{name: "paced1", run: pacedStreams(1, 10*time.Millisecond)},
		{name: "paced64", run: pacedStreams(64, 40*time.Millisecond)},
		{name: "paced500", run: pacedStreams(500, 200*time.Millisecond)},
		{name: "requests", run: shortAnswers},
		{name: "bare", run: func(ctx context.Context, o options, s *server) (figures, error) {
			bare := func(c *client, q request) (result, error) { return c.ask(barePath, q) }
			return shortRequests(ctx, o, s, "bare request", bare, order{})
		}},
		{name: "prompts", run: prompts},
		{name: "counts", run: counts},
		{name: "memory", run: memory, fresh: true},
	}
}

// clients opens so many connections to a server and calls use with each, all at once.
func clients(ctx context.Context, s *server, n int, use func(i int, c *client) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c, err := dial(ctx, s)
			if err == nil {
				defer c.close()
				err = use(i, c)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// The blast: streams whose deltas come as fast as the app-server can write them.
const blastStreams = 4

func blast(ctx context.Context, o options, s *server) (figures, error) {
	q := newRequest(order{deltas: o.blast, size: minSize}, nil, "")
	var chunks atomic.Int64
	spent, err := s.spend(ctx, func() error {
		return clients(ctx, s, blastStreams, func(_ int, c *client) error {
			got, err := c.do(q)
			chunks.Add(int64(got.chunks))
			return err
		})
	})
	deltas := float64(blastStreams * o.blast)
	return figures{
		{name: "blast: CPU a delta, us", value: us(spent.cpu) / deltas},
		{name: "blast: deltas a second, thousands", value: deltas / spent.took.Seconds() / 1000},
		{name: "blast: allocations a delta", value: spent.objects / deltas},
		{name: "blast: deltas a chunk", value: deltas / float64(chunks.Load())},
	}, err
}

// shortAnswers requests a word, a sentence and a paragraph, each as fast as the app-server can
// write.
func shortAnswers(ctx context.Context, o options, s *server) (all figures, err error) {
	for _, deltas := range []int{3, 8, 30} {
		some, err := shortRequests(ctx, o, s, fmt.Sprintf("request of %d deltas", deltas), (*client).do, order{deltas: deltas, size: minSize})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// shortRequests sends short requests, one after another on some connections.
func shortRequests(ctx context.Context, o options, s *server, name string, do func(*client, request) (result, error), ask order) (figures, error) {
	const at = 8
	q := newRequest(ask, nil, "Say something. ")
	var mu sync.Mutex
	var firsts []time.Duration
	load := func(window time.Duration) error {
		firsts = nil
		until := time.Now().Add(window)
		return clients(ctx, s, at, func(_ int, c *client) error {
			for time.Now().Before(until) {
				got, err := do(c, q)
				if err != nil {
					return err
				}
				mu.Lock()
				firsts = append(firsts, got.first)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := load(o.window / 5); err != nil { // warm up
		return nil, err
	}
	spent, err := s.spend(ctx, func() error { return load(o.window) })
	n := float64(len(firsts))
	return figures{
		{name: name + ": a second", value: n / spent.took.Seconds()},
		{name: name + ": CPU, us", value: us(spent.cpu) / n},
		{name: name + ": allocations", value: spent.objects / n},
		{name: name + ": first chunk, median ms", value: rig.MS(rig.Percentile(firsts, 50))},
		{name: name + ": first chunk, p99 ms", value: rig.MS(rig.Percentile(firsts, 99))},
	}, err
}

func prompts(ctx context.Context, o options, s *server) (figures, error) {
	var all figures
	short := order{deltas: 3, size: minSize}
	for _, load := range []struct {
		name   string
		atOnce int
		q      request
	}{
		{"150 prompts of 220 kB", 150, newRequest(short, nil, padding(220_000))},
		{"4 prompts of 2 MB", 4, newRequest(short, []string{padding(500_000), padding(500_000), padding(500_000), padding(500_000)}, "")},
	} {
		firsts := make([]time.Duration, load.atOnce)
		spent, err := s.spend(ctx, func() error {
			return clients(ctx, s, load.atOnce, func(i int, c *client) error {
				got, err := c.do(load.q)
				firsts[i] = got.first
				return err
			})
		})
		if err != nil {
			return nil, err
		}
		all = append(all,
			figure{name: load.name + ": first chunk, median ms", value: rig.MS(rig.Percentile(firsts, 50))},
			figure{name: load.name + ": first chunk, last ms", value: rig.MS(rig.Percentile(firsts, 100))},
			figure{name: load.name + ": CPU a request, ms", value: rig.MS(spent.cpu) / float64(load.atOnce)},
		)
	}
	return all, nil
}

// counts counts the tokens of what Claude Code counts at once for its /context, with Messages.
func counts(ctx context.Context, _ options, s *server) (figures, error) {
	if s.form != messagesForm {
		return nil, nil
	}
	const atOnce = 24
	q := newRequest(order{}, nil, padding(80_000))
	spent, err := s.spend(ctx, func() error {
		return clients(ctx, s, atOnce, func(_ int, c *client) error {
			_, err := c.ask(messagesForm.path+"/count_tokens", q)
			return err
		})
	})
	return figures{
		{name: "24 counts of 80 kB: CPU of all, ms", value: rig.MS(spent.cpu)},
		{name: "24 counts of 80 kB: until the last, ms", value: rig.MS(spent.took)},
	}, err
}

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

// forever is the number of deltas of a stream that is ended by its client.
const forever = 1 << 30

// openStreams runs streams until measure returns, which it calls once each has its first delta.
func openStreams(ctx context.Context, s *server, n int, q request, measure func() error) error {
	var begun atomic.Int64
	all := make(chan struct{})
	q.begun = func() {
		if begun.Add(1) == int64(n) {
			close(all)
		}
	}
	var mu sync.Mutex
	var open []*client
	closing := false
	ended := make(chan error, 1)
	go func() {
		ended <- clients(ctx, s, n, func(_ int, c *client) error {
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			_, err := c.do(q)
			mu.Lock()
			defer mu.Unlock()
			if closing {
				return nil
			}
			return fmt.Errorf("a stream ended: %w", err)
		})
	}()
	var err error
	select {
	case <-all:
		err = measure()
	case err := <-ended:
		return errors.Join(errors.New("the streams have ended"), err)
	}
	mu.Lock()
	closing = true
	for _, c := range open {
		c.close()
	}
	mu.Unlock()
	return errors.Join(err, <-ended)
}

// pacedStreams returns a load of so many streams whose deltas come one by one.
func pacedStreams(streams int, pace time.Duration) func(context.Context, options, *server) (figures, error) {
	return func(ctx context.Context, o options, s *server) (figures, error) {
		return paced(ctx, o, s, streams, pace)
	}
}

func paced(ctx context.Context, o options, s *server, streams int, pace time.Duration) (figures, error) {
	var mu sync.Mutex
	var delays []time.Duration
	measuring := false
	q := newRequest(order{deltas: forever, size: stamped, pace: pace}, nil, "")
	q.heard = func(onTheWay time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if measuring {
			delays = append(delays, onTheWay)
		}
	}
	var spent time.Duration
	err := openStreams(ctx, s, streams, q, func() error {
		time.Sleep(o.window / 5)
		mu.Lock()
		measuring = true
		mu.Unlock()
		used := s.cpu()
		time.Sleep(o.window)
		spent = s.cpu() - used
		mu.Lock()
		measuring = false
		mu.Unlock()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(delays) == 0 {
		return nil, errors.New("no delta came in time")
	}
	name := fmt.Sprintf("%d paced: ", streams)
	return figures{
		{name: name + "CPU a delta, us", value: us(spent) / float64(len(delays))},
		{name: name + "latency, p50 us", value: us(rig.Percentile(delays, 50))},
		{name: name + "latency, p99 us", value: us(rig.Percentile(delays, 99))},
	}, nil
}

// memory measures what open streams take that have had one delta.
func memory(ctx context.Context, o options, s *server) (figures, error) {
	before := s.memory()
	q := newRequest(order{deltas: 1, size: minSize, hold: true}, nil, "Say something. ")
	most := 0
	err := openStreams(ctx, s, o.streams, q, func() error {
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, s.memory())
		}
		return nil
	})
	return figures{
		{name: fmt.Sprintf("%d open streams: KiB each", o.streams), value: float64(most-before) / 1024 / float64(o.streams)},
	}, err
}

package main

import (
	"context"
	"fmt"
	"time"
)

// growth measures what ten times as much of each thing costs: ten, if the cost is linear.
func growth(ctx context.Context, _ options, s *server) (figures, error) {
	var all figures
	for _, load := range []struct {
		name    string
		streams [2]int
		q       [2]request
	}{
		{"deltas", [2]int{1, 1}, [2]request{said(20_000, minSize), said(200_000, minSize)}},
		{"streams", [2]int{10, 100}, [2]request{said(2000, minSize), said(2000, minSize)}},
		{"bytes of a delta", [2]int{1, 1}, [2]request{said(2000, 1000), said(2000, 10_000)}},
		{"bytes of the history", [2]int{4, 4}, [2]request{said(1, minSize, padding(300_000)), said(1, minSize, padding(3_000_000))}},
		{"messages of the history", [2]int{1, 1}, [2]request{said(1, minSize, manyMessages(2000)...), said(1, minSize, manyMessages(20_000)...)}},
	} {
		var spent [2]time.Duration
		for i, q := range load.q {
			got, err := s.spend(ctx, func() error {
				return clients(ctx, s, load.streams[i], func(_ int, c *client) error {
					_, err := c.do(q)
					return err
				})
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", load.name, err)
			}
			spent[i] = got.cpu
		}
		all = append(all, figure{name: "10 times the " + load.name + ": CPU, times", value: float64(spent[1]) / float64(spent[0])})
	}
	return all, nil
}

// said returns a request for so many deltas of a size, after a history.
func said(deltas, size int, history ...string) request {
	return newRequest(order{deltas: deltas, size: size}, history, "")
}

// manyMessages returns a history of so many short messages.
func manyMessages(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = padding(200)
	}
	return all
}

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
		{"deltas", [2]int{1, 1}, [2]request{newRequest(order{deltas: 20_000, size: minSize}, nil, ""), newRequest(order{deltas: 200_000, size: minSize}, nil, "")}},
		{"streams", [2]int{10, 100}, [2]request{newRequest(order{deltas: 2000, size: minSize}, nil, ""), newRequest(order{deltas: 2000, size: minSize}, nil, "")}},
		{"bytes of a delta", [2]int{1, 1}, [2]request{newRequest(order{deltas: 2000, size: 1000}, nil, ""), newRequest(order{deltas: 2000, size: 10_000}, nil, "")}},
		{"bytes of the history", [2]int{4, 4}, [2]request{newRequest(order{deltas: 1, size: minSize}, []string{padding(300_000)}, ""), newRequest(order{deltas: 1, size: minSize}, []string{padding(3_000_000)}, "")}},
		{"messages of the history", [2]int{1, 1}, [2]request{newRequest(order{deltas: 1, size: minSize}, manyMessages(2000), ""), newRequest(order{deltas: 1, size: minSize}, manyMessages(20_000), "")}},
	} {
		var spent [2]time.Duration
		for i, q := range load.q {
			used := s.cpu()
			if err := clients(ctx, s, load.streams[i], func(_ int, c *client) error {
				_, err := c.do(q)
				return err
			}); err != nil {
				return nil, fmt.Errorf("%s: %w", load.name, err)
			}
			spent[i] = s.cpu() - used
		}
		all = append(all, figure{name: "10 times the " + load.name + ": CPU, times", value: float64(spent[1]) / float64(spent[0])})
	}
	return all, nil
}

// manyMessages returns a history of so many short messages.
func manyMessages(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = padding(200)
	}
	return all
}

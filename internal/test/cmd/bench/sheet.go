package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// sheet collects the figures of servers: the nth of one was measured beside the nth of the others.
type sheet struct {
	names   []string // of figures, in their order
	servers []string // in their order; the first is the floor
	values  map[string]map[string][]float64
}

func (s *sheet) add(server string, all figures) {
	if s.values == nil {
		s.values = make(map[string]map[string][]float64)
	}
	if !slices.Contains(s.servers, server) {
		s.servers = append(s.servers, server)
		s.values[server] = make(map[string][]float64)
	}
	for _, f := range all {
		if !slices.Contains(s.names, f.name) {
			s.names = append(s.names, f.name)
		}
		s.values[server][f.name] = append(s.values[server][f.name], f.value)
	}
}

// print prints medians with the least and the most, and medians of the ratios to the base server.
func (s *sheet) print(to io.Writer) {
	if len(s.servers) == 0 {
		return
	}
	slices.SortStableFunc(s.servers, func(a, b string) int { return rank(a) - rank(b) })
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "figure")
	for i, server := range s.servers {
		fmt.Fprintf(table, "\t%s\tleast–most", server)
		if i > 0 {
			fmt.Fprintf(table, "\tof %s\tleast–most", s.base(server))
		}
	}
	fmt.Fprintln(table)
	for _, name := range s.names {
		fmt.Fprint(table, name)
		for i, server := range s.servers {
			values := s.values[server][name]
			fmt.Fprintf(table, "\t%s", spread(values))
			if i > 0 {
				fmt.Fprintf(table, "\t%s", spread(ratios(values, s.values[s.base(server)][name])))
			}
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
}

// base returns the server to which another is compared.
func (s *sheet) base(server string) string {
	if server == asksMessages {
		return isCaddy
	}
	return s.servers[0]
}

func rank(server string) int {
	return slices.Index([]string{isFloor, isCaddy, asksMessages, "before"}, server)
}

// ratios divides the values of one server by those of another, pair by pair.
func ratios(values, base []float64) []float64 {
	var all []float64
	for i := range min(len(values), len(base)) {
		if base[i] != 0 {
			all = append(all, values[i]/base[i])
		}
	}
	return all
}

// spread returns the median of values, and in a second column the least and the most.
func spread(values []float64) string {
	if len(values) == 0 {
		return "\t"
	}
	sorted := slices.Sorted(slices.Values(values))
	return fmt.Sprintf("%s\t%s–%s", number(median(sorted)), number(sorted[0]), number(sorted[len(sorted)-1]))
}

// median returns the median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// number returns a number with three digits or more.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

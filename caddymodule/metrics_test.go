package caddymodule

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/gateway"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// counters reads the module's counters from the registry of a configuration.
// One with labels has a value for each.
func counters(t *testing.T, c *configuration) map[string]float64 {
	t.Helper()
	families, err := c.ctx.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			if counter := metric.GetCounter(); counter != nil && strings.HasPrefix(name, "codex_") {
				values[name] = counter.GetValue()
			}
		}
	}
	return values
}

// Every configuration has a registry of its own. The counters are in each of
// them once, however many handlers there are, and go on over reloads.
func TestMetrics(t *testing.T) {
	first := provision(t, new(Handler), new(Handler))
	before := counters(t, first)
	observer{}.TurnEnded(gateway.Record{Tools: turn.Report{
		Started: 5, Flushed: 3, Calls: 4, Truncated: true,
		Aborted: map[aggregator.AbortReason]int{aggregator.AbortUnclosed: 2},
	}})
	observer{}.TurnEnded(gateway.Record{Tools: turn.Report{Calls: 1}})
	for name, c := range map[string]*configuration{"the first": first, "the next": provision(t, new(Handler))} {
		after := counters(t, c)
		for counter, grown := range map[string]float64{
			"codex_tool_buffer_started_total":                                            5,
			"codex_tool_buffer_flushed_total":                                            3,
			"codex_tool_calls_total":                                                     5,
			"codex_tool_calls_truncated_total":                                           1,
			"codex_tool_buffer_aborted_total reason=" + string(aggregator.AbortUnclosed): 2,
		} {
			value, ok := after[counter]
			if !ok {
				t.Errorf("%s configuration has no %s, but %q", name, counter, slices.Sorted(maps.Keys(after)))
			} else if value-before[counter] != grown {
				t.Errorf("%s configuration: %s grew from %v to %v, want %v more", name, counter, before[counter], value, grown)
			}
		}
	}
}

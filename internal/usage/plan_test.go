package usage

import (
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestPlanWindows leaves out windows that are over or not known, and takes two resets that vary for one window.
func TestPlanWindows(t *testing.T) {
	now := time.Unix(1_800_000_010, 0)
	window := func(resets time.Time) *codexrpc.RateWindow {
		return &codexrpc.RateWindow{UsedPercent: 3, Window: 5 * time.Hour, ResetsAt: resets}
	}
	for name, m := range map[string]*codexrpc.Meter{
		"none": nil, "over": {Primary: window(now)}, "without a reset": {Primary: window(time.Time{})},
		"without a length": {Primary: &codexrpc.RateWindow{ResetsAt: now.Add(time.Hour)}},
	} {
		if got := PlanWindows("a", m, now); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	first := PlanWindows("a", &codexrpc.Meter{ID: "codex", Primary: window(now.Add(time.Hour))}, now)[0]
	if want := (PlanWindow{"a", "codex", 18000, 1_800_003_660, 3}); first != want {
		t.Errorf("%+v", first)
	}
	b := New()
	for _, seconds := range []time.Duration{3600, 3590, 3660} {
		w := PlanWindows("a", &codexrpc.Meter{ID: "codex", Primary: window(now.Add(seconds * time.Second))}, now)
		b.Add(Record{Time: now, Key: "ann", Usage: codexrpc.Usage{InputTokens: 100}, Windows: w})
		if known, _, costs := b.Window(w[0]); known.Resets != first.Resets || costs["ann"]%1000 != 0 {
			t.Errorf("%+v, %v", known, costs)
		}
	}
	if _, _, costs := b.Window(first); costs["ann"] != 3000 {
		t.Errorf("%v", costs)
	}
}

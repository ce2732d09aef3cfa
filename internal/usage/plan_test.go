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
		if known := b.Known(w[0]); known.Resets != first.Resets || known.Costs["ann"]%1000 != 0 {
			t.Errorf("%+v", known)
		}
	}
	if known := b.Known(first); known.Costs["ann"] != 3000 {
		t.Errorf("%+v", known)
	}
}

// TestCapacity learns what a window holds while turns run: what they have cost since the use was last told does
// not count.
func TestCapacity(t *testing.T) {
	now, b := time.Now(), New()
	w := PlanWindow{Login: "a", Meter: "codex", Length: 18000, Resets: now.Unix() + 9000}
	know := func(want int64) {
		t.Helper()
		if known := b.Known(w); known.Whole != want {
			t.Errorf("100 %% are %d, want %d", known.Whole, want)
		}
	}
	told := func(used float64) {
		w.Used = used
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{w}})
	}
	turn := func() {
		b.Add(Record{Time: now, Key: "ann", Usage: codexrpc.Usage{InputTokens: 100}, Windows: []PlanWindow{w}})
	}
	told(10)
	turn()
	turn()
	told(12)
	know(0)
	turn()
	turn()
	turn()
	told(15)
	know(100_000)
	turn()
	turn()
	know(100_000)
	stored := New()
	restore(t, stored, b)
	if known := stored.Known(w); known.Whole != 100_000 {
		t.Errorf("restored: %d", known.Whole)
	}
	w.Resets, w.Used = w.Resets+20000, 0 // the next window
	know(100_000)
}

// TestResetsStay: once a window has begun, it keeps its reset, whatever another node says that knows less.
func TestResetsStay(t *testing.T) {
	now, b := time.Now(), New()
	resets := now.Unix()/60*60 + 9000
	for _, c := range []struct {
		used         float64
		resets, want int64
	}{{0, 0, 0}, {0, 60, 60}, {1, 120, 120}, {0, 180, 120}, {2, 60, 120}} {
		w := PlanWindow{Login: "a", Meter: "codex", Length: 18000, Resets: resets + c.resets, Used: c.used}
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{w}})
		if known := b.Known(w); known.Resets != resets+c.want {
			t.Errorf("%+v: it resets after %d s", c, known.Resets-resets)
		}
	}
}

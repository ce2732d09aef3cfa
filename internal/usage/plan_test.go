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

// TestUseThatFalls: use that falls far begins a new window, with another reset and without costs, also for a node that
// was not told yet. Neither a little less than the highest use, nor what was told before it, nor turns do that.
func TestUseThatFalls(t *testing.T) {
	now, b := time.Unix(1_800_000_000, 0), New()
	begun := PlanWindow{Login: "a", Meter: "codex", Length: 18000, Resets: now.Unix() + 18000}
	for _, c := range []struct {
		at, later   int64 // seconds
		used        float64
		turn        bool
		resets      int64 // after begun.Resets
		wantedCosts int64
	}{
		{at: 1, used: 30},
		{at: 2, used: 30, turn: true, wantedCosts: 1000},
		{at: 1, used: 3, wantedCosts: 1000}, // another node stores late
		{at: 3, used: 25, later: 60, wantedCosts: 1000},
		{at: 4, used: 0, resets: 1},
		{at: 2, used: 30, resets: 1},
		{at: 5, used: 30, turn: true, resets: 1, wantedCosts: 1000}, // of a node that was not told yet
		{at: 6, used: 0, later: 60, resets: 60, wantedCosts: 1000},
		{at: 7, used: 20, later: 60, resets: 60, wantedCosts: 1000},
		{at: 8, used: 2, later: 60, resets: 61},
		{at: 9, used: 3, turn: true, resets: 61, wantedCosts: 1000},
		{at: 9, used: 0, later: 600, resets: 600}, // far enough from the last one
		{at: 10, used: 3, turn: true, resets: 600},
	} {
		w := begun
		w.Used, w.Resets = c.used, w.Resets+c.later
		r := Record{Time: now.Add(time.Duration(c.at) * time.Second), Told: !c.turn, Key: "ann", Windows: []PlanWindow{w}}
		if c.turn {
			r.Usage = codexrpc.Usage{InputTokens: 100}
		}
		b.Add(r)
		stored := New()
		restore(t, stored, b)
		for _, known := range []Known{b.Known(begun), stored.Known(begun)} {
			if known.Resets != begun.Resets+c.resets || known.Costs["ann"] != c.wantedCosts {
				t.Errorf("%+v: %+v", c, known)
			}
		}
	}
}

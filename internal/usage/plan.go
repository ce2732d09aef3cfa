package usage

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// PlanWindows returns the windows of a meter of a login's plan, without those that are over, whose length or reset is
// not known, or that have the name of another. The meter may be nil.
func PlanWindows(login string, m *codexrpc.Meter, now time.Time) (windows []PlanWindow) {
	const minute = 60 // providers' resets vary by seconds
	all := m.Windows()
	for i, w := range all {
		length := int64(w.Window / time.Second)
		if length <= 0 || w.ResetsAt.IsZero() || w.Over(now) || i > 0 && w.Name() == all[0].Name() {
			continue
		}
		resets := (w.ResetsAt.Unix() + minute - 1) / minute * minute
		windows = append(windows, PlanWindow{Login: login, Meter: m.ID, Length: length, Resets: resets, Used: w.UsedPercent})
	}
	return windows
}

// Known is what is known of a window: its Resets is that of the first who told of it.
type Known struct {
	PlanWindow
	Whole int64            // what 100 % of it cost, in the units of [Cost]; 0: not known
	Costs map[string]int64 // what the turns of each key have cost in it
}

// Known returns what is known of a window.
func (b *Book) Known(w PlanWindow) Known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return knownOf(b.windows, w)
}

// Known does what [Book.Known] does, for all nodes, with what this node has last read.
func (s *Shared) Known(w PlanWindow) Known {
	s.mu.Lock()
	defer s.mu.Unlock()
	return knownOf(s.windows, w)
}

func knownOf(windows []*window, w PlanWindow) Known {
	asked, found := &window{PlanWindow: w}, Known{PlanWindow: w, Costs: make(map[string]int64)}
	for _, same := range windows {
		if same.isSame(asked) {
			found.Resets = same.Resets
			for key, c := range same.Costs {
				found.Costs[key] = *c
			}
		}
	}
	found.Whole = capacity(windows, &w)
	return found
}

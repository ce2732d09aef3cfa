package usage

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// PlanWindows returns the windows of a meter of a login's plan, without those that are over, whose length or reset is
// not known, or that have the name of another. The meter may be nil.
func PlanWindows(login string, m *codexrpc.Meter, now time.Time) (windows []PlanWindow) {
	all := m.Windows()
	for i, w := range all {
		length, resets := int64(w.Window/time.Second), (w.ResetsAt.Unix()+59)/60*60 // providers' resets vary by seconds
		if length > 0 && !w.ResetsAt.IsZero() && !w.Over(now) && (i == 0 || w.Name() != all[0].Name()) {
			windows = append(windows, PlanWindow{login, m.ID, length, resets, w.UsedPercent})
		}
	}
	return windows
}

// Known is what is known of a window. Its Resets is the same at all nodes, and differs from those of all other windows.
type Known struct {
	PlanWindow
	Whole int64            // what 100 % of it cost, in the units of [Cost]; 0: not known
	Costs map[string]int64 // what the turns of each key have cost in it
}

// Known returns what is known of a window that was told or, if another node was told of a later one, of that one.
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
	asked, known := &window{PlanWindow: w}, Known{w, capacity(windows, &w), nil}
	for _, v := range windows {
		if v.isSame(asked) || v.continues(&w) && v.Resets > w.Resets {
			known.PlanWindow, known.Costs = v.PlanWindow, make(map[string]int64)
			for key, c := range v.Costs {
				known.Costs[key] = *c
			}
		}
	}
	return known
}

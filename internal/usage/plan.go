package usage

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// PlanWindows returns the windows of a meter of a login's plan, without those that are over and those whose length or
// reset is not known. The meter may be nil.
func PlanWindows(login string, m *codexrpc.Meter, now time.Time) (windows []PlanWindow) {
	const minute = 60 // providers' resets vary by seconds
	for _, w := range m.Windows() {
		if length := int64(w.Window / time.Second); length > 0 && !w.ResetsAt.IsZero() && !w.Over(now) {
			resets := (w.ResetsAt.Unix() + minute - 1) / minute * minute
			windows = append(windows, PlanWindow{Login: login, Meter: m.ID, Length: length, Resets: resets, Used: w.UsedPercent})
		}
	}
	return windows
}

// Window returns a window as it is known, what 100 % of it cost in the units of [Cost], see capacity, and what
// the turns of each key have cost in it.
func (b *Book) Window(w PlanWindow) (known PlanWindow, capacity int64, costs map[string]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return look(b.windows, w)
}

// Window does what [Book.Window] does, for all nodes, with what this node has last read.
func (s *Shared) Window(w PlanWindow) (known PlanWindow, capacity int64, costs map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return look(s.windows, w)
}

func look(windows []*window, w PlanWindow) (PlanWindow, int64, map[string]int64) {
	asked, costs := &window{PlanWindow: w}, make(map[string]int64)
	for _, known := range windows {
		if known.isSame(asked) {
			w = known.PlanWindow
			for key, c := range known.Costs {
				costs[key] = *c
			}
		}
	}
	return w, capacity(windows, &w), costs
}

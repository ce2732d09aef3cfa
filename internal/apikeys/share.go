package apikeys

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// PlanUse is what is known of a window of a plan.
type PlanUse struct {
	Window quota.Window
	Whole  int64            // what 100 % of the window cost, in the units of usage.Cost; 0: not known
	Used   float64          // which part of the window is used, by anybody: from 0 to 1
	Rest   float64          // which part of the window's time is left: from 0 to 1
	Costs  map[string]int64 // what each key has cost in the window, by the ids of keys
}

func (w *PlanUse) share(k *quota.Key) float64 { return float64(w.Whole) * float64(k.PlanShare) / 1000 }

// claim returns how much of its share a key keeps, and how much it lends; negative: it has used more than its share.
func (w *PlanUse) claim(k *quota.Key) (kept, lent float64) {
	unused := w.share(k) - float64(w.Costs[k.ID])
	if kept = max(0, unused); k.Lends {
		kept = min(kept, w.share(k)*w.Rest)
	}
	return kept, unused - kept
}

// PlanLimits returns a function that returns the limits of a key in windows: its plan_share, if it has one, and what
// others lend of theirs. A key that lends keeps as much of its unused share as the window has of its time left; once
// the rest of the window is no more than what the others keep, the key has lost what it has lent. What one key has
// borrowed, no other can borrow.
func (s *Set) PlanLimits(windows []PlanUse) func(*quota.Key) []quota.Limit {
	kept, lent := make([]float64, len(windows)), make([]float64, len(windows)) // by all keys together
	for i := 0; s.lends && i < len(windows); i++ {
		w := &windows[i]
		for _, k := range s.Keys {
			if k.PlanShare > 0 && !k.Expired(time.Now()) {
				keeps, lends := w.claim(&k.Key)
				kept[i], lent[i] = kept[i]+keeps, lent[i]+lends
			}
		}
	}
	return func(k *quota.Key) (limits []quota.Limit) {
		for i, w := range windows {
			if k.PlanShare == 0 {
				break
			}
			keeps, lends := w.claim(k)
			free := float64(w.Costs[k.ID]) + float64(w.Whole)*(1-w.Used) - (kept[i] - keeps) // what the others do not keep
			most := min(w.share(k)+max(0, lent[i]-lends), free)
			if !k.Lends || w.Used >= 1 { // a plan that is spent refuses by itself
				most = max(most, w.share(k))
			}
			if most = max(1, min(most, quota.NoLimit)); w.Whole == 0 {
				most = quota.NoLimit
			}
			limits = append(limits, quota.Limit{Unit: quota.PlanShare, Max: int64(most), Window: w.Window, Whole: w.Whole})
		}
		return limits
	}
}

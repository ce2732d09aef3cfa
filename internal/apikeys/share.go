package apikeys

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// PlanLimits returns a function that returns the limits of a key in windows: its plan_share, if it has one, and what
// others lend of theirs. A key that lends keeps as much of its unused share as the window has of its time left; once
// the rest of the window is no more than what the others keep, the key has lost what it has lent. What one key has
// borrowed, no other can borrow.
func (s *Set) PlanLimits(windows []usage.Known) func(*quota.Key) []quota.Limit {
	now := time.Now()
	kept, lent := make([]float64, len(windows)), make([]float64, len(windows)) // by all keys together
	for i := 0; s.lends && i < len(windows); i++ {
		for _, k := range s.Keys {
			if k.PlanShare > 0 && !k.Expired(now) {
				_, keeps, lends := claim(&windows[i], &k.Key, now)
				kept[i], lent[i] = kept[i]+keeps, lent[i]+lends
			}
		}
	}
	return func(k *quota.Key) (limits []quota.Limit) {
		for i := 0; k.PlanShare > 0 && i < len(windows); i++ {
			w := &windows[i]
			share, keeps, lends := claim(w, k, now)
			free := float64(w.Costs[k.ID]) + float64(w.Whole)*(1-w.Used/100) - (kept[i] - keeps) // what the others do not keep
			most := min(share+max(0, lent[i]-lends), free)
			if !k.Lends || w.Used >= 100 { // a plan that is spent refuses by itself
				most = max(most, share)
			}
			name := (&codexrpc.RateWindow{Window: time.Duration(w.Length) * time.Second}).Name() + " " + w.Meter + " " + w.Login
			limits = append(limits, quota.Limit{
				Unit: quota.PlanShare, Max: min(w.Whole, max(1, int64(most))), Window: quota.PlanWindow(name, time.Unix(w.Resets, 0)), Whole: w.Whole,
			})
		}
		return limits
	}
}

// claim returns a key's share of a window, how much of it the key keeps, and how much it lends; negative: the key has
// used more than its share.
func claim(w *usage.Known, k *quota.Key, now time.Time) (share, keeps, lends float64) {
	share = float64(w.Whole) * float64(k.PlanShare) / 1000
	unused := share - float64(w.Costs[k.ID])
	if keeps = max(0, unused); k.Lends {
		keeps = min(keeps, share*max(0, float64(w.Resets-now.Unix()))/float64(w.Length))
	}
	return share, keeps, unused - keeps
}

package apikeys

import (
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// PlanLimits returns a function that returns the limits of a key in windows: its plan_share, if it has one, and what
// others lend of theirs. A key that lends keeps as much of its unused share as the window has of its time left, and
// borrowers leave what all other keys keep. What one key has borrowed, no other can borrow. A key that lends may use its
// own share as long as the plan has more left than the unused shares of keys that do not lend.
func (s *Set) PlanLimits(windows []usage.Known) func(*quota.Key) []quota.Limit {
	now := time.Now()
	all := make([]struct{ kept, lent, firm float64 }, len(windows)) // by all keys; firm: by those that do not lend
	for i := 0; s.lends && i < len(windows); i++ {
		for _, k := range s.Keys {
			if k.PlanShare > 0 && !k.Expired(now) {
				_, keeps, lends := claim(&windows[i], &k.Key, now)
				if all[i].kept, all[i].lent = all[i].kept+keeps, all[i].lent+lends; !k.Lends {
					all[i].firm += keeps
				}
			}
		}
	}
	return func(k *quota.Key) (limits []quota.Limit) {
		for i := 0; k.PlanShare > 0 && i < len(windows); i++ {
			w, sum := &windows[i], &all[i]
			share, keeps, lends := claim(w, k, now)
			free := float64(w.Costs[k.ID]) + float64(w.Whole)*(1-w.Used/100) // if no other key has a share
			most := max(min(share, free-sum.firm), min(share+max(0, sum.lent-lends), free-(sum.kept-keeps)))
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

package apikeys

import (
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
)

// PlanUse is what is known of a window of a plan. Costs are in the units of usage.Cost.
type PlanUse struct {
	Window   quota.Window
	Capacity float64          // what 100 % of the window cost; 0: not known
	Used     float64          // which part of the window is used, by anybody: from 0 to 1
	Rest     float64          // which part of the window's time is left: from 0 to 1
	Costs    map[string]int64 // what each key has cost in the window, by the ids of keys
}

// PlanLimits returns the limits of a key's plan_share in windows, with what other keys lend or without.
func (s *Set) PlanLimits(k *quota.Key, windows []PlanUse, lent bool) (limits []quota.Limit) {
	if k.PlanShare == 0 {
		return nil
	}
	for _, w := range windows {
		most := float64(quota.NoLimit)
		if w.Capacity > 0 {
			most = w.Capacity * float64(k.PlanShare) / 1000
		}
		if w.Capacity > 0 && lent {
			most = s.share(k, w, time.Now())
		}
		limits = append(limits, quota.Limit{Unit: quota.PlanShare, Max: int64(min(max(1, most), quota.NoLimit)), Window: w.Window})
	}
	return limits
}

// share returns how much of a window a key may use: its plan_share, and what others lend of theirs. A key that lends
// keeps as much of its unused share as the window has of its time left; once the rest of the window is no more than
// what the others keep, the key has lost what it has lent. What one key has borrowed, no other can borrow.
func (s *Set) share(k *quota.Key, w PlanUse, now time.Time) float64 {
	share := func(k *quota.Key) float64 { return w.Capacity * float64(k.PlanShare) / 1000 }
	lent, kept := 0.0, 0.0
	for _, other := range s.Keys {
		if other.PlanShare == 0 || other.ID == k.ID || other.Expired(now) {
			continue
		}
		unused := share(&other.Key) - float64(w.Costs[other.ID])
		if claim := unused; unused > 0 {
			if other.Lends {
				claim = min(unused, share(&other.Key)*w.Rest)
			}
			kept, unused = kept+claim, unused-claim
		}
		lent += unused // negative: the other one borrows
	}
	most := float64(w.Costs[k.ID]) + w.Capacity*(1-w.Used) - kept // what the others do not keep
	if k.Lends && most < share(k) && w.Used < 1 { // a plan that is spent refuses by itself
		return max(0, most)
	}
	return share(k) + max(0, min(lent, most-share(k)))
}

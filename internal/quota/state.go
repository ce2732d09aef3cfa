package quota

import "time"

// State is how much of a limit is used.
type State struct {
	Limit
	Used   int64     // with what requests under way have taken
	Resets time.Time // when all of it is free again if nothing more is used; zero: it is
	// Exhausted is when nothing will be left at the present rate; zero: that will not
	// happen before Resets, or, in a window that slides, ever.
	Exhausted time.Time
}

// Remaining returns what is left.
func (s State) Remaining() int64 { return max(0, s.Max-s.Used) }

// States returns the states of the limits of a key, in their order.
func (l *Ledger) States(k *Key) []State {
	if k == nil || len(k.Limits) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	a := l.accounts[k.Account]
	states := make([]State, len(k.Limits))
	for i, limit := range k.Limits {
		states[i].Limit = limit
		if a == nil {
			continue
		}
		if states[i].Used = a.usedOf(limit, now); states[i].Used > 0 {
			states[i].Resets = a.resets(limit, 0, now)
			states[i].Exhausted = forecast(limit, a.parts(limit, now), states[i].Used, now)
		}
	}
	return states
}

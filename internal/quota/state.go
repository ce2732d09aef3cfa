package quota

import "time"

// State is how much of a limit is used.
type State struct {
	Limit
	Used   int64     // including reserved tokens
	Resets time.Time // when the whole limit is free again if nothing more is used; zero: the whole limit is free now
}

// Remaining returns how much of the limit is left.
func (s State) Remaining() int64 { return max(0, s.Max-s.Used) }

func (a *account) states(k *Key, now time.Time) []State {
	states := make([]State, len(k.Limits))
	for i, limit := range k.Limits {
		states[i] = a.state(limit, now)
	}
	return states
}

// state returns the state of a limit. A nil account has used nothing.
func (a *account) state(limit Limit, now time.Time) State {
	s := State{Limit: limit}
	if a == nil {
		return s
	}
	if s.Used = a.usedOf(limit, now); s.Used == 0 {
		return s
	}
	if limit.Unit == Tokens && a.reserved > 0 {
		s.Resets = now.Add(reservedWait)
	}
	if c := a.used[measure{limit.Unit, limit.Window}]; len(c) > 0 {
		if at := limit.Window.partExpiry(c[len(c)-1].part); at.After(s.Resets) {
			s.Resets = at
		}
	}
	return s
}

package quota

import "time"

// State is how much of a limit is used.
type State struct {
	Limit
	Used   int64     // with what requests under way have taken
	Resets time.Time // when all of it is free again if nothing more is used; zero: it is
}

// Remaining returns what is left.
func (s State) Remaining() int64 { return max(0, s.Max-s.Used) }

// Forecast is a state with what will come of it.
type Forecast struct {
	State
	// Exhausted is when nothing will be left at the present rate; zero: that will not
	// happen before Resets, or, in a window that slides, ever.
	Exhausted time.Time
}

// States returns the states of the limits of a key, in their order.
func (l *Ledger) States(k *Key) []State {
	if k == nil || len(k.Limits) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	states, a, now := make([]State, len(k.Limits)), l.accounts[k.Account], l.now()
	for i, limit := range k.Limits {
		states[i] = a.state(limit, now)
	}
	return states
}

// Forecasts returns the states of the limits of a key with their forecasts.
func (l *Ledger) Forecasts(k *Key) []Forecast {
	l.mu.Lock()
	defer l.mu.Unlock()
	forecasts, a, now := make([]Forecast, len(k.Limits)), l.accounts[k.Account], l.now()
	for i, limit := range k.Limits {
		if forecasts[i].State = a.state(limit, now); forecasts[i].Used > 0 {
			forecasts[i].Exhausted = forecast(limit, a.parts(limit, now), forecasts[i].Used, now)
		}
	}
	return forecasts
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
	if limit.Unit == Tokens && a.held > 0 {
		s.Resets = now.Add(heldWait)
	}
	m := measure{limit.Unit, limit.Window}
	for _, c := range []counts{a.used[m], a.others[m]} {
		if len(c) == 0 {
			continue
		}
		if at := limit.Window.leaves(c[len(c)-1].part); at.After(s.Resets) {
			s.Resets = at
		}
	}
	return s
}

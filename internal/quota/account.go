package quota

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"
)

// account has the counts of one key.
type account struct {
	used           map[measure]counts // without reserved tokens
	reservedByTurn map[string]int64   // tokens reserved for running turns, by the ids of the turns
	reserved       int64              // the sum of reservedByTurn
}

// measure is a unit in a window. Each measure is counted separately.
type measure struct {
	unit   Unit
	window Window
}

// apply does the operation o on the counts of the key k. The script of [Redis] does the same operations.
func (a *account) apply(k *Key, o Op, now time.Time) (r Result, err error) {
	switch o.Kind {
	case Reserve:
		if r.Granted, err = a.reserve(k, o, now); err != nil {
			return r, err
		}
	case Take:
		r.Granted = a.share(k, o.N, now)
		a.addReserved(o.Turns[0], r.Granted)
	case Raise:
		a.addReserved(o.Turns[0], o.N)
	case Settle:
		a.reserved -= a.reservedByTurn[o.Turns[0]]
		delete(a.reservedByTurn, o.Turns[0])
		a.count(k, Tokens, o.N, now)
		a.count(k, PlanShare, o.Cost, now)
	}
	r.Remaining = a.remaining(k, now)
	return r, nil
}

// reserve counts a request. For each turn of the request, it reserves o.N tokens for the input and
// outputTokens for the output, and returns outputTokens.
func (a *account) reserve(k *Key, o Op, now time.Time) (outputTokens int64, err error) {
	if err := a.checkLimits(k, Requests, 1, now); err != nil {
		return 0, err
	}
	if err := a.checkLimits(k, PlanShare, 1, now); err != nil {
		return 0, err
	}
	turns := int64(len(o.Turns))
	if turns > 0 {
		if err := a.checkLimits(k, Tokens, turns*(o.N+1), now); err != nil {
			return 0, err
		}
		for _, turn := range o.Turns {
			a.addReserved(turn, o.N)
		}
		outputTokens = a.share(k, o.Ahead*turns, now) / turns
		for _, turn := range o.Turns {
			a.addReserved(turn, outputTokens)
		}
	}
	a.count(k, Requests, 1, now)
	return outputTokens, nil
}

func (a *account) addReserved(turn string, n int64) {
	a.reservedByTurn[turn] += n
	a.reserved += n
}

// minShare is how many tokens a turn may get even if its share is smaller, if so many are left.
const minShare = 16

// share returns how many of n wanted tokens are granted. The limit is half of the remaining tokens,
// divided by the number of running turns of the key, so that tokens are left for other turns. If
// this is less than minShare, the limit is minShare, or all remaining tokens if they are fewer.
func (a *account) share(k *Key, n int64, now time.Time) int64 {
	remaining := a.remaining(k, now)
	return max(0, min(n, remaining, max(minShare, remaining/int64(2*max(1, len(a.reservedByTurn))))))
}

// remaining returns the fewest tokens that a limit has left, negative if it is exceeded.
func (a *account) remaining(k *Key, now time.Time) int64 {
	remaining := int64(math.MaxInt64)
	for _, limit := range k.Limits {
		if limit.Unit == Tokens {
			remaining = min(remaining, limit.Max-a.usedOf(limit, now))
		}
	}
	return remaining
}

// checkLimits returns nil if all limits of a unit allow n more. Otherwise it returns an *ExceededError
// about one of the exceeded limits: one that never allows n, or else the limit that will be the last to
// allow n again. Of shares of plans, it is enough if those of one login do.
func (a *account) checkLimits(k *Key, unit Unit, n int64, now time.Time) error {
	worst := make(map[string]*ExceededError) // by login; nil: nothing is exceeded
	for _, limit := range k.Limits {
		if limit.Unit != unit {
			continue
		}
		login := limit.Window.login()
		last := worst[login]
		worst[login] = last
		used := a.usedOf(limit, now)
		if used+n <= limit.Max || limit.Max == 0 {
			continue
		}
		e := &ExceededError{limit, used, n, a.resetTime(limit, limit.Max-n, now)}
		if last == nil || e.Resets.IsZero() || !last.Resets.IsZero() && e.Resets.After(last.Resets) {
			worst[login] = e
		}
	}
	var first *ExceededError
	for _, e := range worst {
		if e == nil {
			return nil
		}
		if first == nil || e.Resets.Before(first.Resets) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	return first
}

// usedOf returns a limit's use now, with the reserved tokens.
func (a *account) usedOf(limit Limit, now time.Time) int64 {
	m := measure{limit.Unit, limit.Window}
	a.used[m] = a.used[m].update(limit.Window, now)
	oldest, n := limit.Window.oldestPart(now), int64(0)
	for _, c := range a.used[m] {
		if c.part >= oldest {
			n += c.n
		}
	}
	if limit.Unit == Tokens {
		n += a.reserved
	}
	return n
}

// reservedWait is how long a request should wait for tokens that are reserved for running turns. It
// is a guess: nobody knows when these turns end, or how many tokens they give back.
const reservedWait = 5 * time.Second

// resetTime returns when the use of a limit will have fallen to target, if nothing more is counted.
// If target is negative, the result is the zero time: never.
func (a *account) resetTime(limit Limit, target int64, now time.Time) time.Time {
	if target < 0 {
		return time.Time{}
	}
	used := a.usedOf(limit, now)
	if limit.Unit == Tokens {
		if used -= a.reserved; used <= target { // enough will be left when running turns give tokens back
			return now.Add(reservedWait)
		}
	}
	for _, c := range a.used[measure{limit.Unit, limit.Window}] {
		if used -= c.n; used <= target {
			return limit.Window.partExpiry(c.part)
		}
	}
	return limit.Window.partExpiry(limit.Window.partAt(now))
}

func (a *account) count(k *Key, unit Unit, n int64, now time.Time) {
	for _, limit := range k.Limits {
		if part := limit.Window.partAt(now); limit.Unit == unit && part >= limit.Window.oldestPart(now) {
			m := measure{unit, limit.Window}
			a.used[m] = a.used[m].update(limit.Window, now).add(part, n)
		}
	}
}

// State is how much of a limit is used.
type State struct {
	Limit
	Used   int64     // including reserved tokens
	Resets time.Time // when the whole limit is free again if nothing more is used; zero: the whole limit is free now
}

// Remaining returns how much of the limit is left.
func (s State) Remaining() int64 { return max(0, s.Max-s.Used) }

// Shown returns what clients are told of the state: of a PlanShare percents of the window.
func (s State) Shown() (limit, used, remaining float64) {
	if s.Unit != PlanShare {
		return float64(s.Max), float64(s.Used), float64(s.Remaining())
	}
	percent := func(n int64) float64 { return math.Round(1000*float64(n)/float64(s.Whole)) / 10 }
	return percent(s.Max), percent(s.Used), percent(s.Remaining())
}

func (a *account) states(k *Key, now time.Time) []State {
	states := make([]State, 0, len(k.Limits))
	for _, limit := range k.Limits {
		if limit.Max > 0 {
			states = append(states, a.state(limit, now))
		}
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

// Ledger is an [Engine] for one process. It has the counts in memory.
type Ledger struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account // by their names, see Key.Account
	changes  uint64              // how often the ledger has changed
}

// NewLedger returns an empty ledger. now is the clock.
func NewLedger(now func() time.Time) *Ledger {
	return &Ledger{now: now, accounts: make(map[string]*account)}
}

// account returns the account of a key, perhaps a new one. The caller holds l.mu.
func (l *Ledger) account(id string) *account {
	a := l.accounts[id]
	if a == nil {
		a = &account{used: make(map[measure]counts), reservedByTurn: make(map[string]int64)}
		l.accounts[strings.Clone(id)] = a
	}
	return a
}

// Do implements [Engine].
func (l *Ledger) Do(_ context.Context, k *Key, o Op) (Result, error) {
	if o.Kind == Look {
		return Result{}, nil // the caller reads the counts with the method states
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	return l.account(k.Account).apply(k, o, l.now())
}

func (l *Ledger) states(k *Key) []State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts[k.Account].states(k, l.now())
}

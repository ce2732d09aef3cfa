// Package quota counts what the keys of the API have used, and limits it.
//
// The limits of a key count for this key alone, whoever its user is. A [Ledger] has the
// counts of all keys. A key whose limits or whose user change keeps its counts.
package quota

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Unit is what a limit counts.
type Unit string

// The units.
const (
	Requests Unit = "requests"
	Tokens   Unit = "tokens" // of the input and the output
)

// Limit allows Max of a unit in a window.
type Limit struct {
	Unit   Unit
	Max    int64 // above 0
	Window Window
}

// Key is whom the limits of a key apply to, and what they are.
type Key struct {
	ID            string   // names the key in its file, in lists and logs
	Account       string   // identifies its counts, at all nodes
	User          string   // whose key it is; several keys may have the same user
	Models        []string // the models that it may use, as clients name them; nil: all
	MaxConcurrent int      // turns at once; 0: no limit
	Limits        []Limit  // no two of the same unit and window
}

// Allows reports whether the key may use a model.
func (k *Key) Allows(model string) bool {
	return k == nil || k.Models == nil || slices.Contains(k.Models, model)
}

// limits reports whether the key has a limit of a unit.
func (k *Key) limits(unit Unit) bool {
	return k != nil && slices.ContainsFunc(k.Limits, func(l Limit) bool { return l.Unit == unit })
}

// Ledger counts what keys have used. Its methods are safe for concurrent use: checking a
// limit and counting are one step.
type Ledger struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account  // by their names, see Key.Account
	nodes    map[string]*document // of other nodes, as they were last read
	changes  uint64
}

// account is what one key has used.
type account struct {
	used    map[measure]counts // without what is held
	others  map[measure]counts // what other nodes have counted
	running int                // turns
	held    int64              // tokens that requests under way have taken
}

// measure is what is counted separately: a unit in a window.
type measure struct {
	unit   Unit
	window Window
}

// New returns an empty ledger. now is the clock.
func New(now func() time.Time) *Ledger {
	return &Ledger{now: now, accounts: make(map[string]*account)}
}

// ExceededError means that a request would exceed a limit of its key.
type ExceededError struct {
	Limit  Limit
	Used   int64     // without the request
	Wanted int64     // by the request
	Resets time.Time // when the request can succeed; zero: never, it wants more than Max
}

// Error returns which limit it is.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("%d of %d %s in a window of %s are used, and %d more wanted", e.Used, e.Limit.Max, e.Limit.Unit, e.Limit.Window, e.Wanted)
}

// ConcurrencyError means that a key has as many turns under way as it may.
type ConcurrencyError struct{ Max, Wanted int }

// Error returns the limit.
func (e *ConcurrencyError) Error() string {
	return fmt.Sprintf("%d turns may run at once, and %d more are wanted", e.Max, e.Wanted)
}

// account returns the account of a key, and opens it if there is none. The caller holds
// l.mu, as in all functions with an account.
func (l *Ledger) account(id string) *account {
	a := l.accounts[id]
	if a == nil {
		a = &account{used: make(map[measure]counts)}
		l.accounts[strings.Clone(id)] = a
	}
	return a
}

// Request counts a request. The error is an *ExceededError; nothing is counted then.
func (l *Ledger) Request(k *Key) error {
	if !k.limits(Requests) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a, now := l.account(k.Account), l.now()
	if err := a.exceeds(k, Requests, 1, now); err != nil {
		return err
	}
	a.count(k, Requests, 1, now)
	l.changes++
	return nil
}

// exceeds returns the *ExceededError of the limit that n more of a unit would exceed for
// longest, or nil.
func (a *account) exceeds(k *Key, unit Unit, n int64, now time.Time) (worst *ExceededError) {
	for _, limit := range k.Limits {
		if limit.Unit != unit {
			continue
		}
		used := a.usedOf(limit, now)
		if used+n <= limit.Max {
			continue
		}
		e := &ExceededError{limit, used, n, a.resets(limit, limit.Max-n, now)}
		if worst == nil || e.Resets.IsZero() || !worst.Resets.IsZero() && e.Resets.After(worst.Resets) {
			worst = e
		}
	}
	return worst
}

// usedOf returns what counts for a limit now, with what is held.
func (a *account) usedOf(limit Limit, now time.Time) int64 {
	m := measure{limit.Unit, limit.Window}
	a.used[m] = a.used[m].update(limit.Window, now)
	oldest := limit.Window.oldest(now)
	n := a.used[m].sum(oldest) + a.others[m].sum(oldest)
	if limit.Unit == Tokens {
		n += a.held
	}
	return n
}

// heldWait is how long a request should wait for tokens that turns under way hold, of
// which nobody knows when and how many they give back.
const heldWait = 5 * time.Second

// resets returns when at most some are used of a limit if nothing more is counted; zero
// if that is less than none.
func (a *account) resets(limit Limit, most int64, now time.Time) time.Time {
	if most < 0 {
		return time.Time{}
	}
	used := a.usedOf(limit, now)
	if limit.Unit == Tokens {
		if used -= a.held; used <= most {
			return now.Add(heldWait)
		}
	}
	for _, c := range a.parts(limit, now) {
		if used -= c.n; used <= most {
			return limit.Window.leaves(c.part)
		}
	}
	return limit.Window.leaves(limit.Window.at(now))
}

// parts returns the parts that count for a limit, of all nodes.
func (a *account) parts(limit Limit, now time.Time) (all counts) {
	m := measure{limit.Unit, limit.Window}
	return all.plus(a.used[m]).plus(a.others[m]).update(limit.Window, now)
}

// count counts n of a unit in all windows of the key's limits.
func (a *account) count(k *Key, unit Unit, n int64, now time.Time) {
	for _, limit := range k.Limits {
		if limit.Unit == unit {
			m := measure{unit, limit.Window}
			a.used[m] = a.used[m].update(limit.Window, now).add(limit.Window.at(now), n)
		}
	}
}

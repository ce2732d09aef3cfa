// Package quota counts what the keys of the API use, and enforces their limits.
//
// Each key has its own counts, even if several keys have the same user. An [Engine] stores the
// counts of all keys: a [Ledger] counts in this process, a [Redis] for all nodes together. A key
// keeps its counts if its limits or its user change. A [Keeper] stores counts in a file, so that they
// survive restarts: those of a Ledger, and those of the package usage.
package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Unit is what a limit counts.
type Unit string

// The units.
const (
	Requests Unit = "requests"
	Tokens   Unit = "tokens" // of the input and the output
	// PlanShare counts what turns have cost in a window of the plan of the login that has served them.
	// A Key has none of these limits in Limits: [Request.Reserve] and [Grant.Settle] get them.
	PlanShare Unit = "plan_share"
)

// Limit allows at most Max requests, tokens or costs in a window.
type Limit struct {
	Unit   Unit
	Max    int64 // above 0; of a PlanShare 0 if Whole is not known: then it only counts
	Window Window
	Whole  int64 // of a PlanShare: what 100 % of the window cost; 0: not known
}

// Key is a key of the API, with its user and its limits.
type Key struct {
	ID            string   // names the key in its file, in lists and logs
	Account       string   // identifies the counts of the key, at all nodes
	User          string   // the owner of the key; several keys may have the same user
	Models        []string // the models that the key may use, as clients name them; nil: all
	MaxConcurrent int      // how many turns may run at the same time; 0: any number
	Limits        []Limit  // no two of the same unit and window
	StaysIfSpent  bool     // if the plan is spent, no other handler serves the requests of the key
	PlanShare     int64    // thousandths of each window of a plan that the key may use; 0: all
	Lends         bool     // other keys may use what this key leaves of its PlanShare
}

// With returns the key with shares as further limits.
func (k *Key) With(shares []Limit) *Key {
	if len(shares) == 0 {
		return k
	}
	more := *k
	more.Limits = slices.Concat(k.Limits, shares)
	return &more
}

// WithoutRequests returns the key without its limits of requests.
func (k *Key) WithoutRequests() *Key {
	other := *k
	other.Limits = slices.DeleteFunc(slices.Clone(k.Limits), func(l Limit) bool { return l.Unit == Requests })
	return &other
}

// Allows reports whether the key may use a model. A nil key may use all models.
func (k *Key) Allows(model string) bool {
	return k == nil || k.Models == nil || slices.Contains(k.Models, model)
}

func (k *Key) hasLimit(unit Unit) bool {
	return k != nil && slices.ContainsFunc(k.Limits, func(l Limit) bool { return l.Unit == unit })
}

// Engine keeps the counts of what each key has used. It is safe for concurrent use.
type Engine interface {
	// Do does an operation atomically, by the engine's clock, in a few seconds at most. The error is an
	// *ExceededError if a limit refuses the operation; then nothing was counted. Any other error wraps
	// ErrUnavailable; then the operation may have been done, unless the error also wraps ErrNotSent.
	Do(ctx context.Context, k *Key, o Op) (Result, error)
}

// The errors of engines. An error may wrap both: ErrNotSent means that the engine did not try the
// operation, since it knew that the operation would fail.
var (
	ErrUnavailable = errors.New("what keys have used is not available")
	ErrNotSent     = errors.New("Redis does not work")
)

// Kind is what an [Op] does.
type Kind string

// The kinds of operations.
const (
	Look    Kind = "look"    // changes nothing
	Reserve Kind = "reserve" // counts a request; reserves N tokens and up to Ahead more for each turn; fails if a limit of requests or a share of a plan is reached, or if fewer than N+1 tokens are left for each turn
	Take    Kind = "take"    // reserves up to N more tokens for a turn, fewer near a limit
	Raise   Kind = "raise"   // reserves N more tokens for a turn, even beyond a limit
	Settle  Kind = "settle"  // counts N tokens and the Cost of a turn, and frees its reserved tokens
	Undo    Kind = "undo"    // takes back a Reserve whose result is not known, and which may still arrive; a [Ledger] needs none
)

// Op is an operation on the counts of a key.
type Op struct {
	Kind  Kind
	Turns []string // the ids of the turns
	N     int64    // a number of tokens, see the kinds
	Held  int64    // tokens that are reserved for the turn already
	Ahead int64    // a number of tokens for each turn, see Reserve
	Cost  int64    // what a turn has cost in the windows of a plan, see Settle
	// ID identifies a request. At is when its Reserve began, on the clock of this node.
	ID string
	At time.Time
}

// Result is the result of an operation.
type Result struct {
	Granted   int64 // tokens that were reserved for the output of each turn
	Remaining int64 // the fewest tokens that a limit has left
	// snapshot has the key's counts after the operation. It is nil for a [Ledger], which has the counts in
	// memory.
	snapshot *snapshot
}

// snapshot has the counts of a key at one moment.
type snapshot struct {
	account
	takenAt     time.Time     // on the clock of the engine
	clockOffset time.Duration // this node's clock minus the engine's
}

// ExceededError means that a request would exceed a limit of its key.
type ExceededError struct {
	Limit  Limit
	Used   int64     // before the request
	Wanted int64     // what the request needs
	Resets time.Time // when the request can succeed; zero: never, since it needs more than Max
}

// Error names the limit, and says how much is used and how much more is wanted.
func (e *ExceededError) Error() string {
	return fmt.Sprintf("%d of %d %s in a window of %s are used, and %d more wanted", e.Used, e.Limit.Max, e.Limit.Unit, e.Limit.Window, e.Wanted)
}

// ConcurrencyError means that the turns of a request would exceed the MaxConcurrent of its key.
type ConcurrencyError struct{ Max, Wanted int }

// Error names the limit and how many more turns are wanted.
func (e *ConcurrencyError) Error() string {
	return fmt.Sprintf("%d turns may run at once, and %d more are wanted", e.Max, e.Wanted)
}

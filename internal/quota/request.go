package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Limits applies the limits of keys. It is safe for concurrent use.
type Limits struct {
	engine      Engine
	tokensAhead int64 // see NewLimits
	failOpen    bool  // see NewLimits
	now         func() time.Time

	settling sync.Mutex // locked during Settle

	mu        sync.Mutex
	running   map[string]int     // how many turns run in this process, by account
	refusals  map[string]refusal // the last refusal by a limit of requests, by account
	unsettled []unsettled        // see Limits.Settle
}

// refusal says that a limit of requests has refused a request. states has the limits' states at that time.
type refusal struct {
	err       *ExceededError
	states    []State
	refusedAt time.Time
}

const (
	// refusalTime is how long a key's requests are refused without a call of the engine.
	refusalTime = time.Second
	// maxRefusals bounds the refusals that are remembered.
	maxRefusals = 1000
)

// unsettled is an operation that is not counted yet, since the engine has failed.
type unsettled struct {
	key *Key
	op  Op
}

// maxUnsettled bounds the operations that are not counted yet. Further operations are dropped. The tokens
// that their turns have reserved then count as used, after reservationTime.
const maxUnsettled = 10_000

// NewLimits returns limits with their counts in engine. Each turn reserves up to tokensAhead tokens in
// advance, so that it needs fewer calls. With failOpen, requests are allowed while the engine fails.
func NewLimits(engine Engine, tokensAhead int64, failOpen bool) *Limits {
	return &Limits{engine: engine, tokensAhead: tokensAhead, failOpen: failOpen, now: time.Now, running: make(map[string]int), refusals: make(map[string]refusal)}
}

// Request applies the limits of a key to one request. It is safe for concurrent use.
type Request struct {
	limits *Limits
	key    *Key

	refusedStates []State // set if the request is refused without asking the engine

	mu           sync.Mutex
	lastKey      *Key      // the key with the shares of the last operation
	lastSnapshot *snapshot // the counts after the last operation; nil: the engine has returned none
}

// Begin begins a request of a key, without counting it: Reserve does that later. If a limit of
// requests has refused another request of the key within refusalTime, and would refuse this one,
// too, the error is an *ExceededError. The caller then need not read the body of the request.
func (l *Limits) Begin(k *Key) (*Request, error) {
	r := &Request{limits: l, key: k, lastKey: k}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, found := l.refusals[k.Account]
	if !found {
		return r, nil
	}
	now := l.now()
	if age := now.Sub(last.refusedAt); age < 0 || age >= refusalTime || !now.Before(last.err.Resets) || !slices.Contains(k.Limits, last.err.Limit) {
		delete(l.refusals, k.Account) // the refusal does not apply any more
		return r, nil
	}
	r.refusedStates = last.states
	return r, last.err
}

// refuse remembers err if it says that a limit of requests has refused r.
func (r *Request) refuse(err error) {
	e, exceeded := errors.AsType[*ExceededError](err)
	if !exceeded || e.Limit.Unit != Requests {
		return
	}
	l, states := r.limits, r.States()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refusals) >= maxRefusals {
		clear(l.refusals)
	}
	l.refusals[r.key.Account] = refusal{e, states, l.now()}
}

func (r *Request) do(ctx context.Context, k *Key, o Op) (Result, error) {
	result, err := r.limits.engine.Do(ctx, k, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastKey = k; result.snapshot != nil {
		r.lastSnapshot = result.snapshot
	}
	return result, err
}

// Acquire returns one grant for each of the turns of a request. The caller must close each grant.
// If the key limits neither its turns nor its tokens nor its share of a plan, there are no grants. If more than
// MaxConcurrent turns of the key would run, the error is a *ConcurrencyError.
func (r *Request) Acquire(turns int) ([]*Grant, error) {
	k := r.key
	if k.MaxConcurrent == 0 && !k.hasLimit(Tokens) && k.PlanShare == 0 {
		return nil, nil
	}
	r.limits.mu.Lock()
	defer r.limits.mu.Unlock()
	if k.MaxConcurrent > 0 && r.limits.running[k.Account]+turns > k.MaxConcurrent {
		return nil, &ConcurrencyError{k.MaxConcurrent, turns}
	}
	r.limits.running[k.Account] += turns
	grants := make([]*Grant, turns)
	for i := range grants {
		grants[i] = &Grant{request: r, id: rand.Text()}
	}
	return grants, nil
}

func (l *Limits) releaseTurn(k *Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[k.Account]--; l.running[k.Account] == 0 {
		delete(l.running, k.Account)
	}
}

// Reserve counts the request. In the same step, it reserves tokens for each of its turns: input tokens for
// the input, and more for the output. grants has one grant for each turn. The error is an *ExceededError
// if a limit allows no more requests, if one of the shares (the key's limits in windows of a plan) is used up,
// or if fewer than input+1 tokens are left for each turn; then nothing was counted. If the engine fails, the
// error is ErrUnavailable or, with failOpen, nil. What the engine may nevertheless have counted,
// [Limits.Settle] undoes later.
func (r *Request) Reserve(ctx context.Context, grants []*Grant, input int64, shares ...Limit) error {
	k, o := r.key.With(shares), Op{Kind: Reserve, N: input, Ahead: r.limits.tokensAhead, ID: rand.Text(), At: r.limits.now()}
	if k.hasLimit(Tokens) {
		for _, g := range grants {
			o.Turns = append(o.Turns, g.id)
		}
	}
	var result Result
	var err error
	if len(o.Turns)+len(shares) > 0 || k.hasLimit(Requests) {
		result, err = r.do(ctx, k, o)
	}
	if errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotSent) { // perhaps only the answer was lost
		o.Kind = Undo
		r.limits.settleLater(k, o) // later, so that the client need not wait for a second timeout
	}
	failedOpen := r.limits.failOpen && errors.Is(err, ErrUnavailable) // the request is allowed, but not counted
	if err != nil && !failedOpen {
		r.refuse(err)
		return err
	}
	for _, g := range grants {
		g.mu.Lock()
		g.isCounted, g.engineFailed = len(o.Turns) > 0 || k.PlanShare > 0, failedOpen // also with failedOpen, Close counts the turn
		if len(o.Turns) > 0 && !failedOpen {
			g.reserved, g.untaken = input+result.Granted, result.Granted
		}
		g.mu.Unlock()
	}
	return nil
}

// ShareUsed returns an *ExceededError if the key's share of a window of a login was used up after the last operation
// of the request, or nil.
func (r *Request) ShareUsed(login string) *ExceededError {
	for _, s := range r.States() {
		if s.Unit == PlanShare && s.Window.login() == login && s.Max > 0 && s.Used >= s.Max {
			return &ExceededError{s.Limit, s.Used, 1, s.Resets}
		}
	}
	return nil
}

// States returns the states of the limits after the last operation of the request.
func (r *Request) States() []State {
	if r.refusedStates != nil {
		return r.refusedStates
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastSnapshot.states(r.limits, r.lastKey)
}

// maxLookups is how many keys States looks up at the same time.
const maxLookups = 16

// States returns the states of the limits of each key, in the order of keys. A key has no states
// if it has no limits, or if the engine does not work now.
func (l *Limits) States(ctx context.Context, keys []*Key) [][]State {
	states := make([][]State, len(keys))
	var lookups errgroup.Group
	lookups.SetLimit(maxLookups)
	for i, k := range keys {
		if len(k.Limits) > 0 {
			lookups.Go(func() error {
				if result, err := l.engine.Do(ctx, k, Op{Kind: Look}); err == nil {
					states[i] = result.snapshot.states(l, k)
				}
				return nil
			})
		}
	}
	_ = lookups.Wait()
	return states
}

// states returns the states of a key's limits, by the clock of this node. v is nil for a [Ledger], which knows the
// states itself, and if there was no operation yet.
func (v *snapshot) states(l *Limits, k *Key) []State {
	if ledger, ok := l.engine.(*Ledger); ok {
		return ledger.states(k)
	}
	if v == nil {
		return nil
	}
	states := v.account.states(k, v.takenAt)
	for i, s := range states {
		states[i].Resets = v.localTime(s.Resets)
	}
	return states
}

// localTime converts a time of the engine's clock to the clock of this node.
func (v *snapshot) localTime(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(v.clockOffset)
}

// settleLater adds an operation that Settle will do.
func (l *Limits) settleLater(k *Key, o Op) {
	most := maxUnsettled
	if o.Kind == Undo { // half of the room is kept for what turns have used
		most /= 2
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unsettled) < most {
		l.unsettled = append(l.unsettled, unsettled{k, o})
	}
}

// Settle does the operations that are not counted yet. It stops if the engine fails again.
func (l *Limits) Settle(ctx context.Context) {
	l.settling.Lock()
	defer l.settling.Unlock()
	for {
		l.mu.Lock()
		if len(l.unsettled) == 0 {
			l.mu.Unlock()
			return
		}
		next := l.unsettled[0]
		l.mu.Unlock()
		if _, err := l.engine.Do(ctx, next.key, next.op); err != nil {
			return
		}
		l.mu.Lock()
		l.unsettled = l.unsettled[1:]
		l.mu.Unlock()
	}
}

// Unsettled returns the number of turns that are not counted yet.
func (l *Limits) Unsettled() (turns int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.unsettled {
		if u.op.Kind != Undo {
			turns++
		}
	}
	return turns
}

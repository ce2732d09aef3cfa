package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Limits applies the limits of keys. It is safe for concurrent use.
type Limits struct {
	engine Engine
	ahead  int64
	open   bool
	me     string // begins the ids of turns
	turns  atomic.Int64
	now    func() time.Time

	mu        sync.Mutex
	running   map[string]int     // turns of this process, by account
	refused   map[string]refusal // the last refusals by limits of requests, by account
	unsettled []Unsettled
}

// refusal is the error for a request beyond a limit of requests, with the states of the limits and
// the time of the request.
type refusal struct {
	err    *ExceededError
	states []State
	at     time.Time
}

const (
	// refusalTime is how long after a refusal the engine is not asked again.
	refusalTime = time.Second
	// maxRefusals bounds the refusals that are remembered.
	maxRefusals = 1000
)

// Unsettled is an operation that could not be counted yet.
type Unsettled struct {
	Key *Key
	Op  Op
}

// maxUnsettled bounds the operations that could not be counted yet. If there are more, the last
// ones are dropped, and the tokens that their turns held count as used.
const maxUnsettled = 10_000

// NewLimits returns limits whose counts are in engine. Each turn gets ahead tokens in advance, so
// that an engine on another machine is called less often. If open is true, requests are allowed
// while the engine fails.
func NewLimits(engine Engine, ahead int64, open bool) *Limits {
	return &Limits{engine: engine, ahead: ahead, open: open, me: rand.Text(), now: time.Now, running: make(map[string]int), refused: make(map[string]refusal)}
}

// Request applies the limits of a key to one request. It is safe for concurrent use.
type Request struct {
	l *Limits
	k *Key

	known []State // the states, if the request is refused without asking the engine

	mu   sync.Mutex
	last *view // of the last operation; nil: there is none
}

// Begin begins a request of a key, which Reserve counts later. If a limit of requests has refused
// another request of the key within refusalTime, the error is an *ExceededError, and the body of
// the new request need not be read.
func (l *Limits) Begin(k *Key) (*Request, error) {
	r := &Request{l: l, k: k}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, found := l.refused[k.Account]
	if !found {
		return r, nil
	}
	now := l.now()
	if age := now.Sub(last.at); age < 0 || age >= refusalTime || !now.Before(last.err.Resets) || !slices.Contains(k.Limits, last.err.Limit) {
		delete(l.refused, k.Account)
		return r, nil
	}
	r.known = last.states
	return r, last.err
}

// refuse remembers that a request was refused by a limit of requests.
func (r *Request) refuse(err error) {
	e, exceeded := errors.AsType[*ExceededError](err)
	if !exceeded || e.Limit.Unit != Requests {
		return
	}
	l, states := r.l, r.States()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) >= maxRefusals {
		clear(l.refused)
	}
	l.refused[r.k.Account] = refusal{e, states, l.now()}
}

// passes reports whether a request goes on although it could not be counted.
func (l *Limits) passes(err error) bool { return l.open && errors.Is(err, ErrUnavailable) }

// do does an operation, and keeps the counts of the key after it in r.last.
func (r *Request) do(ctx context.Context, o Op) (Result, error) {
	result, err := r.l.engine.Do(ctx, r.k, o)
	if result.view != nil {
		r.mu.Lock()
		r.last = result.view
		r.mu.Unlock()
	}
	return result, err
}

// Acquire returns a grant for each turn of a request, whose number is turns. The caller must close
// each grant. If the key has no limit of turns or tokens, there are no grants. If too many turns
// would run at once, the error is a *ConcurrencyError.
func (r *Request) Acquire(turns int) ([]*Grant, error) {
	k := r.k
	if k.MaxConcurrent == 0 && !k.limits(Tokens) {
		return nil, nil
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if k.MaxConcurrent > 0 && r.l.running[k.Account]+turns > k.MaxConcurrent {
		return nil, &ConcurrencyError{k.MaxConcurrent, turns}
	}
	r.l.running[k.Account] += turns
	grants := make([]*Grant, turns)
	for i := range grants {
		grants[i] = &Grant{r: r, id: r.l.me + strconv.FormatInt(r.l.turns.Add(1), 36)}
	}
	return grants, nil
}

// leave gives back the place of a turn.
func (l *Limits) leave(k *Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[k.Account]--; l.running[k.Account] == 0 {
		delete(l.running, k.Account)
	}
}

// Reserve counts a request, and takes at least the tokens of the input for each of its turns, all in
// one step. Each turn has one of the grants. input is the number of tokens in the input of one turn.
// Beyond them, at least one token must be left for the output of each turn. The error is
// ErrUnavailable or an *ExceededError. After an *ExceededError, nothing was counted.
func (r *Request) Reserve(ctx context.Context, grants []*Grant, input int64) error {
	if !r.k.limits(Tokens) {
		grants = nil
	}
	if len(grants) == 0 && !r.k.limits(Requests) {
		return nil
	}
	o := Op{Kind: Reserve, N: input, Ahead: r.l.ahead}
	for _, g := range grants {
		o.Turns = append(o.Turns, g.id)
	}
	result, err := r.do(ctx, o)
	passes := r.l.passes(err)
	if err != nil && !passes {
		r.refuse(err)
		return err
	}
	for _, g := range grants {
		g.mu.Lock()
		g.counts, g.lost = true, passes
		if !passes {
			g.held, g.ahead = input+result.Got, result.Got
		}
		g.mu.Unlock()
	}
	return nil
}

// States returns the states of the limits after the last operation of the request.
func (r *Request) States() []State {
	if r.known != nil {
		return r.known
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.states(r.l, r.k, false)
}

// lookers is how many keys States looks up at the same time.
const lookers = 16

// States returns the states of the limits of each key, in the order of keys, with forecasts. A key
// has no states if it has no limits, or if the engine does not work now.
func (l *Limits) States(ctx context.Context, keys []*Key) [][]State {
	states := make([][]State, len(keys))
	var all sync.WaitGroup
	var next atomic.Int64
	for range min(lookers, len(keys)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(keys); i = int(next.Add(1)) - 1 {
				if len(keys[i].Limits) == 0 {
					continue
				}
				if result, err := l.engine.Do(ctx, keys[i], Op{Kind: Look}); err == nil {
					states[i] = result.view.states(l, keys[i], true)
				}
			}
		})
	}
	all.Wait()
	return states
}

// states returns the states of the limits of a key, on the clock of this node.
func (v *view) states(l *Limits, k *Key, forecasts bool) []State {
	if ledger, ok := l.engine.(*Ledger); ok {
		return ledger.states(k, forecasts)
	}
	if v == nil {
		return nil
	}
	states := v.account.states(k, v.at, forecasts)
	for i, s := range states {
		states[i].Resets, states[i].Exhausted = v.local(s.Resets), v.local(s.Exhausted)
	}
	return states
}

// local converts a time of the engine's clock to the clock of this node.
func (v *view) local(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(v.ahead)
}

// settle does the operation that ends a turn. If the engine fails, [Limits.Settle] does it later.
func (r *Request) settle(o Op) {
	if _, err := r.do(context.Background(), o); err != nil { // the engine has a deadline
		r.l.mu.Lock()
		defer r.l.mu.Unlock()
		if len(r.l.unsettled) < maxUnsettled {
			r.l.unsettled = append(r.l.unsettled, Unsettled{r.k, o})
		}
	}
}

// Settle does the operations that failed before. It stops when the engine fails again, and keeps
// the remaining operations.
func (l *Limits) Settle(ctx context.Context) {
	all := l.Unsettled()
	for i, u := range all {
		if _, err := l.engine.Do(ctx, u.Key, u.Op); err != nil {
			l.Resettle(all[i:])
			return
		}
	}
}

// Unsettled returns the operations that could not be counted yet, and removes them from l.
func (l *Limits) Unsettled() []Unsettled {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.unsettled
	l.unsettled = nil
	return all
}

// Resettle makes Settle count operations that [Limits.Unsettled] has returned, in this process or an
// earlier one.
func (l *Limits) Resettle(all []Unsettled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = append(l.unsettled, all[:min(len(all), max(0, maxUnsettled-len(l.unsettled)))]...)
}

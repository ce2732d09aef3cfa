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

// refusal is a request that was refused by a limit of requests: the error, the states of the
// limits, and the time.
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

// maxUnsettled bounds the operations that could not be counted yet. Further operations are dropped,
// and the tokens that their turns have reserved count as used.
const maxUnsettled = 10_000

// NewLimits returns limits whose counts are in engine. Each turn reserves up to ahead tokens in
// advance, so that it calls the engine less often. If open is true, requests are allowed while the
// engine fails.
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

// Acquire returns one grant for each of the turns of a request. The caller must close each grant.
// If the key limits neither its turns nor its tokens, there are no grants. If too many turns would
// run at once, the error is a *ConcurrencyError.
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

// Reserve counts the request and reserves tokens for its turns, in one step. Each turn has one of
// the grants. For each turn, Reserve reserves input tokens for the turn's input, and more tokens
// for its output. The error is an *ExceededError if a limit allows no more requests, or if fewer
// than input+1 tokens are left for each turn; then nothing was counted. Any other error is
// ErrUnavailable.
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

// Resettle gives l operations that [Limits.Unsettled] has returned, in this process or an earlier
// one, so that Settle does them.
func (l *Limits) Resettle(all []Unsettled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = append(l.unsettled, all[:min(len(all), max(0, maxUnsettled-len(l.unsettled)))]...)
}

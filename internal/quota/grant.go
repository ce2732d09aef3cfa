package quota

import "math"

// Grant is the tokens that a request has taken from the limits of its key. Its methods are
// safe for concurrent use. A nil *Grant has no limit.
type Grant struct {
	l *Ledger
	k *Key
	a *account

	held   int64 // tokens taken
	charge int64 // tokens that were used
	spent  bool  // Take has given fewer tokens than were wanted
	closed bool
}

// Reserve takes tokens for the input of a request, and wants at least one more for its
// output. The error is an *ExceededError. The grant is nil if the key has no limit of
// tokens; otherwise it must be closed.
func (l *Ledger) Reserve(k *Key, input int64) (*Grant, error) {
	if !k.limits(Tokens) {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(k.Account)
	if err := a.exceeds(k, Tokens, input+1, l.now()); err != nil {
		return nil, err
	}
	a.held += input
	return &Grant{l: l, k: k, a: a, held: input}, nil
}

// Take takes up to n more tokens for the output, and returns how many. Fewer than n means
// that a limit is reached.
func (g *Grant) Take(n int) (got int) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed {
		return 0
	}
	rest, now := int64(math.MaxInt64), g.l.now()
	for _, limit := range g.k.Limits {
		if limit.Unit == Tokens {
			rest = min(rest, limit.Max-g.a.usedOf(limit, now))
		}
	}
	taken := max(0, min(int64(n), rest))
	g.spent = taken < int64(n)
	g.held += taken
	g.a.held += taken
	return int(taken)
}

// Spent reports whether the last Take has reached a limit.
func (g *Grant) Spent() bool {
	if g == nil {
		return false
	}
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	return g.spent
}

// Charge adds tokens that were used, which count once the grant is closed.
func (g *Grant) Charge(n int64) {
	if g == nil {
		return
	}
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	g.charge += max(0, n)
}

// Close counts the tokens that were used, instead of those that were taken.
func (g *Grant) Close() {
	if g == nil {
		return
	}
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.a.held -= g.held
	g.a.count(g.k, Tokens, g.charge, g.l.now())
}

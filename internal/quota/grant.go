package quota

import "math"

// Grant is what a turn holds of the limits of its key: a place, and the tokens that it has
// taken. Its methods are safe for concurrent use.
type Grant struct {
	l *Ledger
	k *Key
	a *account

	held   int64 // tokens
	spent  bool  // the last Take has got no token
	closed bool
}

// Acquire takes places for the turns of a request. The error is a *ConcurrencyError. Each
// grant must be closed. A key without limits gets none.
func (l *Ledger) Acquire(k *Key, turns int) ([]*Grant, error) {
	if k == nil || k.MaxConcurrent == 0 && !k.limits(Tokens) {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(k.Account)
	if k.MaxConcurrent > 0 && a.running+turns > k.MaxConcurrent {
		return nil, &ConcurrencyError{k.MaxConcurrent, turns}
	}
	a.running += turns
	grants := make([]*Grant, turns)
	for i := range grants {
		grants[i] = &Grant{l: l, k: k, a: a}
	}
	return grants, nil
}

// Reserve takes tokens for the input of each turn of a request. Each must have at least
// one more for its output. The error is an *ExceededError.
func (l *Ledger) Reserve(grants []*Grant, input int64) error {
	if len(grants) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k, a, turns := grants[0].k, grants[0].a, int64(len(grants))
	if err := a.exceeds(k, Tokens, turns*(input+1), l.now()); err != nil {
		return err
	}
	l.changes++
	a.held += turns * input
	for _, g := range grants {
		g.held += input
	}
	return nil
}

// LimitsTokens reports whether the key has a limit of tokens.
func (g *Grant) LimitsTokens() bool { return g != nil && g.k.limits(Tokens) }

// leastShare is how many tokens Take gives in any case, if there are as many.
const leastShare = 16

// Take takes up to n more tokens for the output, and returns how many: fewer than n near a
// limit, so that the turns of the key share what is left; 0 means that the limit is reached.
func (g *Grant) Take(n int) (got int) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed {
		return 0
	}
	rest := g.rest()
	share := max(leastShare, rest/int64(2*g.a.running))
	taken := max(0, min(int64(n), rest, share))
	g.spent = taken == 0
	g.l.changes++
	g.held += taken
	g.a.held += taken
	return int(taken)
}

// Raise makes the turn hold n tokens at least, for what it has used and will certainly use,
// even beyond a limit. It reports whether any are left.
func (g *Grant) Raise(n int64) bool {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed {
		return false
	}
	if more := n - g.held; more > 0 {
		g.l.changes++
		g.held += more
		g.a.held += more
	}
	g.spent = g.rest() <= 0
	return !g.spent
}

// rest returns how many tokens are left of the tightest limit; none if it is negative.
func (g *Grant) rest() int64 {
	rest, now := int64(math.MaxInt64), g.l.now()
	for _, limit := range g.k.Limits {
		if limit.Unit == Tokens {
			rest = min(rest, limit.Max-g.a.usedOf(limit, now))
		}
	}
	return rest
}

// Spent reports whether the last Take has reached a limit.
func (g *Grant) Spent() bool {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	return g.spent
}

// Close ends the turn: its place is free, and the tokens that it has used count instead of
// those that it has taken. Only the first call counts.
func (g *Grant) Close(used int64) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.l.changes++
	g.a.running--
	g.a.held -= g.held
	g.a.count(g.k, Tokens, max(0, used), g.l.now())
}

package quota

import (
	"context"
	"sync"
)

// Grant is what the limits of a key grant to one turn: one of MaxConcurrent places, and the tokens
// that the turn holds (that are reserved for it). Its methods are safe for concurrent use. If the
// engine fails, the turn continues, and the tokens that the turn uses are counted later.
type Grant struct {
	r  *Request
	id string

	mu     sync.Mutex
	held   int64 // tokens
	ahead  int64 // tokens in held that Take has not returned yet
	spent  bool  // no token is left
	lost   bool  // the engine does not work
	counts bool  // Reserve has counted the turn
	closed bool
}

// LimitsTokens reports whether the key has a limit of tokens.
func (g *Grant) LimitsTokens() bool { return g != nil && g.r.k.limits(Tokens) }

// Take reserves up to n more tokens for the output of the turn, and returns how many it has
// reserved. Near a limit it reserves fewer than n, so that the turns of the key share what is left.
// 0 means that the limit is reached.
func (g *Grant) Take(n int) (got int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0
	}
	if g.ahead == 0 {
		result, works := g.do(Op{Kind: Take, N: int64(n)})
		if !works {
			return n
		}
		g.held, g.ahead = g.held+result.Got, result.Got
	}
	got = min(n, int(g.ahead))
	g.ahead -= int64(got)
	g.spent = got == 0
	return got
}

// Raise reserves tokens until the turn holds at least n, even if that exceeds a limit: the turn has
// used these tokens, or will certainly use them. Raise reports whether any tokens are left after
// that.
func (g *Grant) Raise(n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if g.ahead = max(0, min(g.ahead, g.held-n)); g.ahead > 0 {
		g.spent = false
		return true
	}
	more := max(0, n-g.held)
	result, works := g.do(Op{Kind: Raise, N: more})
	if !works {
		return true
	}
	g.held += more
	g.spent = result.Rest <= 0
	return !g.spent
}

// do runs an operation of the turn on the engine. After the first failed operation, do tries no
// others. works is false if the operation failed or was not tried.
func (g *Grant) do(o Op) (r Result, works bool) {
	if g.lost {
		return r, false
	}
	o.Turns, o.Held = []string{g.id}, g.held
	r, err := g.r.do(context.Background(), o) // the engine has a deadline
	g.lost = err != nil
	return r, err == nil
}

// Spent reports whether the last Take has reached a limit.
func (g *Grant) Spent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spent
}

// Close ends the turn, so that another turn may start. It counts the used tokens of the turn, and
// frees the tokens that the turn has held. Only the first call has an effect.
func (g *Grant) Close(used int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.r.l.leave(g.r.k)
	if g.counts {
		g.r.settle(Op{Kind: Settle, Turns: []string{g.id}, N: max(0, used), Held: g.held})
	}
}

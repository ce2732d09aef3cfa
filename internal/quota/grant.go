package quota

import (
	"context"
	"sync"
)

// Grant is what a turn gets within the limits of its key: one of the MaxConcurrent places, and
// reserved tokens. If the engine fails, the turn continues, and its tokens are counted when the
// engine works again. The methods of Grant are safe for concurrent use.
type Grant struct {
	request *Request
	id      string

	mu           sync.Mutex
	reserved     int64 // tokens that are reserved for the turn
	untaken      int64 // reserved tokens that Take has not returned yet
	spent        bool  // the last Take or Raise has reached a limit
	engineFailed bool  // an operation on the engine has failed, so no other is tried; Limits.Settle counts later
	isCounted    bool  // Close must count the turn: a limit of tokens or a share of a plan applies, and Reserve (perhaps by failOpen) has allowed the turn
	closed       bool
}

// LimitsTokens reports whether the key has a limit of tokens. For a nil Grant, it reports false.
func (g *Grant) LimitsTokens() bool { return g != nil && g.request.key.hasLimit(Tokens) }

// Take returns how many more tokens the turn may output, at most n, and reserves more if needed. It
// returns 0 if a limit is reached or g is closed, and n if the engine has failed.
func (g *Grant) Take(n int) (got int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return 0
	}
	if g.untaken == 0 {
		result, ok := g.do(g.request.key, Op{Kind: Take, N: int64(n)})
		if !ok {
			return n
		}
		g.reserved, g.untaken = g.reserved+result.Granted, result.Granted
	}
	got = min(n, int(g.untaken))
	g.untaken -= int64(got)
	g.spent = got == 0
	return got
}

// Raise makes sure that at least n tokens are reserved for the turn, even if that exceeds a limit:
// the turn has used n tokens, or will certainly use them. Raise reports whether more tokens are
// left. It reports true if the engine has failed, and false if g is closed.
func (g *Grant) Raise(n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if g.untaken = max(0, min(g.untaken, g.reserved-n)); g.untaken > 0 { // more than n are reserved
		g.spent = false
		return true
	}
	more := max(0, n-g.reserved)
	result, ok := g.do(g.request.key, Op{Kind: Raise, N: more})
	if !ok {
		return true
	}
	g.reserved += more
	g.spent = result.Remaining <= 0
	return !g.spent
}

// do runs an operation of the turn on the engine, unless an earlier one has failed.
func (g *Grant) do(k *Key, o Op) (r Result, ok bool) {
	if g.engineFailed {
		return r, false
	}
	o.Turns, o.Held = []string{g.id}, g.reserved
	r, err := g.request.do(context.Background(), k, o) // Engine.Do ends within seconds by itself
	g.engineFailed = err != nil
	return r, err == nil
}

// Spent reports whether the last Take or Raise has reached a limit.
func (g *Grant) Spent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spent
}

// Close ends the turn, so that another turn may start. It counts the used tokens of the turn, and
// frees its reserved tokens. Only the first call has an effect.
func (g *Grant) Close(used int64) { g.Settle(used, 0, nil) }

// Settle does what Close does, and counts what the turn has cost in each of the shares: the limits of [PlanShare] in
// windows of the login that has served the turn.
func (g *Grant) Settle(used, cost int64, shares []Limit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	g.request.limits.releaseTurn(g.request.key)
	if !g.isCounted {
		return
	}
	k, o := g.request.key.With(shares), Op{Kind: Settle, Turns: []string{g.id}, N: max(0, used), Held: g.reserved, Cost: max(0, cost)}
	if !k.hasLimit(Tokens) && (len(shares) == 0 || cost == 0) {
		return
	}
	if _, ok := g.do(k, o); !ok { // Settle counts later, after earlier operations that have failed, such as an Undo
		g.request.limits.settleLater(k, o)
	}
}

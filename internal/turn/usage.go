package turn

import "github.com/caddy-codex/caddy-codex/codexrpc"

// usage adds up the tokens of a turn. Each complete model response has its usage, but an
// incomplete one has none; the thread's total, which comes a little later, includes
// both, and what the thread had used before.
type usage struct {
	before    codexrpc.Usage
	responses codexrpc.Usage
	atThread  codexrpc.Usage
	counted   int64 // tokens that were sent before the limit, if that ended the turn
}

func (u *usage) response(v *codexrpc.Usage) {
	if v != nil {
		u.responses = u.responses.Add(*v)
	}
}

func (u *usage) thread(v *codexrpc.Usage) {
	if v != nil {
		u.atThread = v.Sub(u.before)
	}
}

// total returns the larger account. It has at least the tokens that were sent, for a turn
// that ended at its limit.
func (u *usage) total() codexrpc.Usage {
	total := u.responses
	if u.atThread.TotalTokens > total.TotalTokens {
		total = u.atThread
	}
	if more := u.counted - total.OutputTokens; more > 0 {
		total.OutputTokens += more
		total.TotalTokens += more
	}
	return total
}

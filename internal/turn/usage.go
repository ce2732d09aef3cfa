package turn

import "github.com/caddy-codex/caddy-codex/codexrpc"

// usage adds up what a turn has cost. Each complete model response says what
// it cost, but an incomplete one does not; the thread's total, which comes a
// little later, then does, less what the thread had cost before.
type usage struct {
	before    codexrpc.Usage
	responses codexrpc.Usage
	atThread  codexrpc.Usage
	counted   int64 // tokens that went out before the limit, if that ended the turn
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

// total is the account that knows more. Of a turn that ended at the limit of
// its tokens, it has at least those.
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

package turn

import "github.com/caddy-codex/caddy-codex/codexrpc"

// usage adds up what a turn has cost. Each complete model response says what
// it cost, but an incomplete one does not; the thread's total, which comes a
// little later, then does. A thread has one turn, so its total is the turn's.
type usage struct {
	responses codexrpc.Usage
	atThread  codexrpc.Usage
}

func (u *usage) response(v *codexrpc.Usage) {
	if v != nil {
		u.responses = u.responses.Add(*v)
	}
}

func (u *usage) thread(v *codexrpc.Usage) {
	if v != nil {
		u.atThread = *v
	}
}

// total is the account that knows more.
func (u *usage) total() codexrpc.Usage {
	if u.atThread.TotalTokens > u.responses.TotalTokens {
		return u.atThread
	}
	return u.responses
}

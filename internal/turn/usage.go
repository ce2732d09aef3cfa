package turn

import (
	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/tokens"
)

// maxSaid bounds the text of a response that is kept to count its tokens, in bytes. Further text
// counts as one token for four bytes.
const maxSaid = 8 << 10

// usage adds up the tokens of a turn. Codex reports the usage of each complete model response. A
// little later it reports the total of the thread, which also includes earlier turns and responses
// that broke off. If a response is interrupted, Codex reports neither. So the tokens of its text
// and calls are counted here.
type usage struct {
	responses codexrpc.Usage
	atThread  codexrpc.Usage
	price     Price // of the responses
	counted   int64 // tokens that were sent, if the limit of tokens ended the turn

	said    []byte // text and calls of the response under way
	more    int    // bytes of them above maxSaid
	guessed int64  // tokens of what was said in a response that was interrupted
}

// say records text of the model, or a part of a call.
func (u *usage) say(text string) {
	n := min(len(text), maxSaid-len(u.said))
	u.said = append(u.said, text[:n]...)
	u.more += len(text) - n
}

// known forgets what was said, since its usage has come.
func (u *usage) known() { u.said, u.more = u.said[:0], 0 }

// interrupt counts the tokens of the text and calls of a response that was interrupted, since Codex
// will not report its usage.
func (u *usage) interrupt() {
	if len(u.said) == 0 {
		return
	}
	count := tokens.NewLimit(0) // counts in linear time, whatever the text
	count.Whole(string(u.said))
	u.guessed += int64(count.Count() + (u.more+3)/4)
	u.known()
}

// response adds a response that has completed.
func (u *usage) response(e *codexrpc.Event) {
	u.known()
	if e.Usage != nil {
		u.responses = u.responses.Add(*e.Usage)
	}
	if e.Text != "" {
		u.price = u.price.Add(parsePrice(e.Text))
	}
}

func (u *usage) thread(v *codexrpc.Usage, before codexrpc.Usage) {
	if v == nil || v.InputTokens+v.OutputTokens == 0 {
		return // no usage: if a conversation is too long, Codex reports the size of the context as the total
	}
	u.known()
	u.atThread = v.Sub(before)
}

// total returns the usage of the responses, or that of the thread if it has more tokens. It adds
// the tokens that only this package has counted: those of an interrupted response, or those that
// were sent before the limit of tokens ended the turn. estimated reports whether it has added any.
func (u *usage) total() (total codexrpc.Usage, estimated bool) {
	total = u.responses
	if u.atThread.TotalTokens > total.TotalTokens {
		total = u.atThread
	}
	own := max(u.guessed, u.counted-total.OutputTokens)
	if own > 0 {
		total.OutputTokens += own
		total.TotalTokens += own
	}
	return total, own > 0
}

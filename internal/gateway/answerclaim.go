package gateway

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const (
	// maxAnswer is how many bytes of one answer, with all its choices, may be in memory. Text stays
	// far below this limit: a model writes at most three million bytes in one answer.
	maxAnswer = 32 << 20
	// answerMemory is how many bytes of all answers together may be in memory.
	answerMemory = 256 << 20
	// claimStep is the smallest number of bytes by which the claim of an answer grows.
	claimStep = 64 << 10
	// itemOverhead is how many bytes are claimed for each item of an answer, besides its text.
	itemOverhead = 256
)

// answerClaim claims memory for what an answer keeps in memory until the answer ends. An answer in
// one body keeps everything; a stream keeps what its last event repeats. The memory in use is about
// five times the claim, because of the encoded form and the buffers. A nil *answerClaim claims
// nothing.
type answerClaim struct {
	claim   *claims.Claim
	maxSize int64 // in bytes
	size    int64 // bytes that the answer needs so far
}

// newAnswerClaim returns an empty claim for an answer to a user.
func (g *Gateway) newAnswerClaim(user string) *answerClaim {
	return &answerClaim{claim: g.answerBudget.Claim(user), maxSize: g.maxAnswer}
}

// release releases the claim. It is called when the answer has ended.
func (c *answerClaim) release() {
	if c != nil {
		c.claim.Release()
	}
}

// add claims memory for an output. It returns an *apierror.Error if this answer would be too large,
// or if all answers together or those of the user would be too large.
func (c *answerClaim) add(o *turn.Output) error {
	if c == nil {
		return nil
	}
	if o.Kind != turn.OutputCallEnd { // the end of a call repeats the arguments
		c.size += int64(len(o.Text))
	}
	switch o.Kind {
	case turn.OutputCallStart, turn.OutputReasoningEnd, turn.OutputSearchStart, turn.OutputSearchEnd,
		turn.OutputAnnotations, turn.OutputPictureStart:
		c.size += itemOverhead + int64(len(o.ID)+len(o.Name))
	case turn.OutputReasoning, turn.OutputText:
		if o.Gap { // the output separates two parts of a summary, or two messages
			c.size += itemOverhead + int64(len(o.ID))
		}
	}
	if c.size > c.maxSize {
		return apierror.AnswerTooLarge(c.maxSize)
	}
	if missing := c.size - c.claim.Size(); missing > 0 && !c.claim.Grow(max(missing, claimStep)) {
		return apierror.AnswerMemory()
	}
	return nil
}

package gateway

import (
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const (
	// maxAnswer is how many bytes of an answer may be kept in memory, for all choices together. A
	// model writes two or three million bytes in one answer at most.
	maxAnswer = 32 << 20
	// answerMemory is how many bytes of all answers together may be held.
	answerMemory = 256 << 20
	// claimStep is how many bytes of answerMemory an answer claims at once.
	claimStep = 64 << 10
	// itemOverhead is how many bytes an item of an answer counts besides its text.
	itemOverhead = 256
)

// answerClaim counts the bytes of an answer that stay in memory until its end. An answer in one body
// counts as a whole; of a stream, only what the last event repeats counts. The memory in use is
// some five times as large, because of the encoded form and the buffers. A nil *answerClaim counts
// nothing.
type answerClaim struct {
	claim   *claims.Claim
	maxSize int64
	size    int64
}

// newAnswerClaim returns the count of a new answer for a user.
func (g *Gateway) newAnswerClaim(user string) *answerClaim {
	return &answerClaim{claim: g.answerBudget.Claim(user), maxSize: g.maxAnswer}
}

// release gives the memory back when the answer has ended.
func (c *answerClaim) release() {
	if c != nil {
		c.claim.Release()
	}
}

// add counts an output. The error is an *apierror.Error: this answer, or all answers together,
// would be too large.
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
		if o.Gap { // another part of a summary, or another message
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

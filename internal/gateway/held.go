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
	// heldStep is how many bytes of answerMemory an answer claims at once.
	heldStep = 64 << 10
	// itemCost is how many bytes an item of an answer counts besides its text.
	itemCost = 256
)

// held counts the bytes of an answer that stay in memory until its end. An answer in one body
// counts as a whole; of a stream, only what the last event repeats counts. The memory in use is
// some five times as large, because of the encoded form and the buffers. A nil *held counts
// nothing.
type held struct {
	claim *claims.Claim
	most  int64
	size  int64
}

// hold returns the count of a new answer for a user.
func (g *Gateway) hold(user string) *held {
	return &held{claim: g.answers.Claim(user), most: g.maxAnswer}
}

// release gives the memory back when the answer has ended.
func (h *held) release() {
	if h != nil {
		h.claim.Release()
	}
}

// add counts an output. The error is an *apierror.Error: this answer, or all answers together,
// would be too large.
func (h *held) add(o *turn.Output) error {
	if h == nil {
		return nil
	}
	if o.Kind != turn.OutputCallEnd { // the end of a call repeats the arguments
		h.size += int64(len(o.Text))
	}
	switch o.Kind {
	case turn.OutputCallStart, turn.OutputReasoningEnd, turn.OutputSearchStart, turn.OutputSearchEnd,
		turn.OutputAnnotations, turn.OutputPictureStart:
		h.size += itemCost + int64(len(o.ID)+len(o.Name))
	case turn.OutputReasoning, turn.OutputText:
		if o.Gap { // another part of a summary, or another message
			h.size += itemCost + int64(len(o.ID))
		}
	}
	if h.size > h.most {
		return apierror.AnswerTooLarge(h.most)
	}
	if more := h.size - h.claim.Size(); more > 0 && !h.claim.Grow(max(more, heldStep)) {
		return apierror.AnswerMemory()
	}
	return nil
}

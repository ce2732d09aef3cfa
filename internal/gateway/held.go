package gateway

import (
	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

const (
	// maxAnswer is how much of an answer is held at most, in bytes, over all choices.
	// A model writes two or three million bytes in one answer at most.
	maxAnswer = 32 << 20
	// answerMemory is how much of all answers is held together.
	answerMemory = 256 << 20
	// heldStep is by how much an answer claims more of that.
	heldStep = 64 << 10
	// itemCost is what an item of an answer takes besides its text.
	itemCost = 256
)

// held counts what is held of an answer until its end: of one in a body all, of a
// streamed response what its last event repeats. With the form in which it is
// written, and what growing leaves behind, that takes some five times as much. Nil:
// nothing is held.
type held struct {
	claim  *budget.Claim
	most   int64
	size   int64
	reason part // the reasoning under way
}

// part is a part of a reasoning's summary.
type part struct {
	id    string
	index int
}

// hold begins to count.
func (g *Gateway) hold() *held { return &held{claim: g.answers.Claim(), most: g.maxAnswer} }

// release is to be called when the answer is over.
func (h *held) release() {
	if h != nil {
		h.claim.Release()
	}
}

// add counts an output. If it would be too much, the failure in its place is
// returned.
func (h *held) add(o turn.Output) turn.Output {
	if h == nil {
		return o
	}
	h.size += int64(len(o.Text))
	switch o.Kind {
	case turn.OutputCallStart, turn.OutputReasoningEnd:
		h.size += itemCost + int64(len(o.ID)+len(o.Name))
	case turn.OutputReasoning:
		if now := (part{o.ID, o.Part}); now != h.reason {
			h.reason = now
			h.size += itemCost + int64(len(o.ID))
		}
	case turn.OutputText:
		if o.Gap {
			h.size += itemCost
		}
	}
	if h.size > h.most {
		return turn.Output{Kind: turn.OutputFailure, Err: openai.AnswerTooLarge(h.most)}
	}
	if more := h.size - h.claim.Size(); more > 0 && !h.claim.Grow(max(more, heldStep)) {
		return turn.Output{Kind: turn.OutputFailure, Err: openai.AnswerMemory()}
	}
	return o
}

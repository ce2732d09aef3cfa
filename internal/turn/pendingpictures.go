package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// maxPictures bounds the pictures of a turn that are pending at the same time. The client does not
// see calls for more pictures.
const maxPictures = 16

// pendingPictures tracks the pictures that the model makes within its answer. After the model has
// called for pictures, Codex makes them one after the other, in any order, and then asks the model
// again.
type pendingPictures struct {
	pending      []pendingPicture // in the order of the model's calls
	blocked      bool             // Codex waits for the result of a client's call, and begins no picture before it has the result
	finishReason FinishReason     // the turn ends with this reason when all pictures have come; empty: the model goes on
}

// pendingPicture is a picture that the model has called for, but that has not come yet.
type pendingPicture struct {
	id    string // of the model's call
	begun bool   // Codex makes the picture now, and its start was emitted
}

// index returns the index of a pending picture, or -1 if the picture is not pending.
func (p *pendingPictures) index(id string) int {
	return slices.IndexFunc(p.pending, func(one pendingPicture) bool { return one.id == id })
}

// expectPicture adds a picture that the model has called for. A picture after a call of the client's
// tool is not shown: the turn ends at that call.
func (m *Machine) expectPicture(id string) {
	m.thread.differs = true // the history that a client sends back has the picture in another form
	if m.structured.hasComplete || m.clientHasAll() {
		return
	}
	m.releaseText() // the held text precedes the picture
	if m.stopped() || id == "" || len(m.pictures.pending) == maxPictures || m.pictures.index(id) >= 0 {
		return
	}
	m.pictures.pending = append(m.pictures.pending, pendingPicture{id: id})
	m.out.expectPicture(id)
}

// beginPicture emits the start of a pending picture.
func (m *Machine) beginPicture(id string) {
	if at := m.pictures.index(id); at >= 0 && !m.pictures.pending[at].begun {
		m.pictures.pending[at].begun = true
		m.out.emit(Output{Kind: OutputPictureStart, ID: id})
	}
}

// endPicture emits a pending picture, or the error of a picture that could not be made. If the turn
// has only waited for this picture, endPicture ends the turn.
func (m *Machine) endPicture(out Output) {
	at := m.pictures.index(out.ID)
	if at < 0 {
		return
	}
	m.beginPicture(out.ID)
	m.pictures.pending = slices.Delete(m.pictures.pending, at, at+1)
	m.pictureTool.failed, m.pictureTool.failure = false, nil
	out.Kind = OutputPicture
	m.out.emit(out)
	if len(m.pictures.pending) == 0 && m.pictures.finishReason != "" {
		m.finishCut(m.pictures.finishReason)
	}
	m.failBlockedPictures()
}

// awaitPictures makes the turn end with this reason when all pending pictures have come. If no
// picture is pending, it does nothing and returns false.
func (m *Machine) awaitPictures(reason FinishReason) bool {
	if len(m.pictures.pending) == 0 {
		return false
	}
	m.pictures.finishReason = reason
	m.failBlockedPictures()
	return true
}

// failBlockedPictures ends a turn that waits only for pictures that Codex cannot make now. Codex
// runs one tool at a time, in any order. While Codex waits for the result of a client's call, it
// makes no picture. But the client sends the result only after the end of this turn's answer.
func (m *Machine) failBlockedPictures() {
	isBegun := func(p pendingPicture) bool { return p.begun }
	if p := &m.pictures; p.blocked && p.finishReason != "" && !slices.ContainsFunc(p.pending, isBegun) {
		m.failPendingPictures()
	}
}

// failPendingPictures emits an error for each pending picture, because these pictures will not
// come.
func (m *Machine) failPendingPictures() {
	for len(m.pictures.pending) > 0 {
		m.endPicture(Output{ID: m.pictures.pending[0].id, Err: errPictureCut})
	}
}

var errPictureCut = &PictureError{Message: "the turn has ended before the picture was there"}

// callAnswered processes Codex's answer to a call. It reports whether the turn has waited for a
// picture from this call.
func (m *Machine) callAnswered(e *codexrpc.Event) bool {
	switch {
	case m.opts.PictureOnly && e.CallID == m.pictureTool.lastCallID:
		m.pictureCallAnswered(e)
	case m.pictures.index(e.CallID) >= 0:
		out := Output{ID: e.CallID, Err: ErrNoPictures}
		if e.Status != codexrpc.StatusFailed {
			out.Err = newPictureError(e.Text, m.pictureTool.failure)
		}
		m.endPicture(out)
	default:
		return false
	}
	return true
}

package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// maxPictures bounds the pictures of a turn that are pending at the same time. The client does not
// see further calls for pictures.
const maxPictures = 16

// pendingPictures tracks the pictures that the model makes within its answer. After the model has
// called for pictures, Codex makes them one after the other, and then asks the model again.
type pendingPictures struct {
	pendingIDs   []string     // ids of the calls whose picture has not come yet
	lastBegun    string       // id of the last picture that Codex has begun
	blocked      bool         // Codex waits for the result of a client's call, and begins no picture until it has the result
	finishReason FinishReason // the turn ends with this reason when all pictures have come; empty: the model goes on
}

// startPicture emits the start of a picture within the answer. A picture after a call of the
// client's tool is not shown: the turn ends at that call.
func (m *Machine) startPicture(id string) {
	m.thread.differs = true // the history that a client sends back has the picture in another form
	if m.structured.hasComplete || m.clientHasAll() {
		return
	}
	m.releaseText() // the held text precedes the picture
	if m.stopped() || id == "" || len(m.pictures.pendingIDs) == maxPictures || slices.Contains(m.pictures.pendingIDs, id) {
		return
	}
	m.pictures.pendingIDs = append(m.pictures.pendingIDs, id)
	m.out.emit(Output{Kind: OutputPictureStart, ID: id})
}

// endPicture emits a picture within the answer, or an error if there is none. If the turn has only
// waited for this picture, endPicture ends the turn.
func (m *Machine) endPicture(out Output) {
	at := slices.Index(m.pictures.pendingIDs, out.ID)
	if at < 0 {
		return
	}
	m.pictures.pendingIDs = slices.Delete(m.pictures.pendingIDs, at, at+1)
	m.pictureTool.failed, m.pictureTool.failure = false, nil
	out.Kind = OutputPicture
	m.out.emit(out)
	if len(m.pictures.pendingIDs) == 0 && m.pictures.finishReason != "" {
		m.finishCut(m.pictures.finishReason)
	}
	m.failBlockedPictures()
}

// awaitPictures makes the turn end with a reason when all pending pictures have come. It reports
// false if no picture is pending.
func (m *Machine) awaitPictures(reason FinishReason) bool {
	if len(m.pictures.pendingIDs) == 0 {
		return false
	}
	m.pictures.finishReason = reason
	m.failBlockedPictures()
	return true
}

// failBlockedPictures ends a turn that waits only for pictures which Codex cannot make now. Codex
// runs one tool at a time, in any order. While Codex waits for the result of a client's call, it
// makes no picture, and the client sends the result only after the end of this turn's answer.
func (m *Machine) failBlockedPictures() {
	if p := &m.pictures; p.blocked && p.finishReason != "" && !slices.Contains(p.pendingIDs, p.lastBegun) {
		m.failPendingPictures()
	}
}

// failPendingPictures emits an error for each pending picture, because these pictures will not
// come.
func (m *Machine) failPendingPictures() {
	for len(m.pictures.pendingIDs) > 0 {
		m.endPicture(Output{ID: m.pictures.pendingIDs[0], Err: errPictureCut})
	}
}

var errPictureCut = &PictureError{Message: "the turn has ended before the picture was there"}

// callAnswered processes Codex's answer to a call. It reports whether the call was for a picture.
func (m *Machine) callAnswered(e *codexrpc.Event) bool {
	switch {
	case m.opts.PictureOnly && e.CallID == m.pictureTool.lastCallID:
		m.pictureCallAnswered(e)
	case slices.Contains(m.pictures.pendingIDs, e.CallID):
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

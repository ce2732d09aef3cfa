package turn

import (
	"slices"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// maxPictures bounds the pictures of a turn that are pending at the same time. If the model calls
// for more, the client does not see these calls.
const maxPictures = 16

// pictures follows the pictures that the model makes within its answer. After the model has called
// for pictures, Codex makes them one after the other, and then asks the model again.
type pictures struct {
	open  []string     // the ids of the calls whose picture is still to come
	begun string       // the id of the picture that Codex has begun last
	held  bool         // Codex waits for the result of a client's call, and begins no picture before it has the result
	last  FinishReason // the reason with which the turn ends once all pictures are there; empty: the model goes on
}

// pictureBegun emits the start of a picture within the answer. A picture after a call of the
// client's tool is not shown: the turn ends at that call.
func (m *Machine) pictureBegun(id string) {
	m.rest.differs = true // the history that a client sends back has the picture in another form
	if m.structured.whole || m.hasAll() {
		return
	}
	m.releaseText() // it precedes the picture
	if m.stopped() || id == "" || len(m.pictures.open) == maxPictures || slices.Contains(m.pictures.open, id) {
		return
	}
	m.pictures.open = append(m.pictures.open, id)
	m.out.emit(Output{Kind: OutputPictureStart, ID: id})
}

// pictureEnded emits a picture within the answer, or why there is none. If the turn has only waited
// for this picture, pictureEnded ends the turn.
func (m *Machine) pictureEnded(out Output) {
	at := slices.Index(m.pictures.open, out.ID)
	if at < 0 {
		return
	}
	m.pictures.open = slices.Delete(m.pictures.open, at, at+1)
	m.picture.failed, m.picture.failure = false, nil
	out.Kind = OutputPicture
	m.out.emit(out)
	if len(m.pictures.open) == 0 && m.pictures.last != "" {
		m.finishCut(m.pictures.last)
	}
	m.endHeldPictures()
}

// awaitPictures makes the turn end with a reason when all pending pictures have come. It reports
// false if no picture is pending.
func (m *Machine) awaitPictures(reason FinishReason) bool {
	if len(m.pictures.open) == 0 {
		return false
	}
	m.pictures.last = reason
	m.endHeldPictures()
	return true
}

// endHeldPictures ends a turn that waits only for pictures which Codex does not make now. Codex
// runs one tool at a time, in any order. While Codex waits for the result of a client's call, it
// makes no picture, and the client sends the result only after the end of this turn's answer.
func (m *Machine) endHeldPictures() {
	if p := &m.pictures; p.held && p.last != "" && !slices.Contains(p.open, p.begun) {
		m.endPictures()
	}
}

// endPictures emits an error for each pending picture, because these pictures will not come any
// more.
func (m *Machine) endPictures() {
	for len(m.pictures.open) > 0 {
		m.pictureEnded(Output{ID: m.pictures.open[0], Err: errPictureCut})
	}
}

var errPictureCut = &PictureError{Message: "the turn has ended before the picture was there"}

// callAnswered processes Codex's answer to a call. It reports whether the call was for a picture.
func (m *Machine) callAnswered(e *codexrpc.Event) bool {
	switch {
	case m.opts.PictureOnly && e.CallID == m.picture.call:
		m.pictureAnswered(e)
	case slices.Contains(m.pictures.open, e.CallID):
		out := Output{ID: e.CallID, Err: ErrNoPictures}
		if e.Status != codexrpc.StatusFailed {
			out.Err = newPictureError(e.Text, m.picture.failure)
		}
		m.pictureEnded(out)
	default:
		return false
	}
	return true
}

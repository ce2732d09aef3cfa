package turn

import "unicode/utf8"

// emitter collects the outputs of a turn, in the order in which the client gets them.
type emitter struct {
	batch     []Output  // the outputs since the last call of start
	short     [1]Output // the memory of batch for most turns
	reasoning []Output  // ends of reasoning items, held until the next output
	call      int       // the index, plus 1, of the call that has begun but not ended; 0: none
	picture   string    // the id of the picture that has begun but not ended; empty: none
	held      []Output  // outputs that wait for the end of that call or picture
	heldBytes int       // about the memory of held
	counts    bool      // the characters of the text are counted
	chars     int       // characters of the text so far, if counts is set
	begun     bool      // there was an output of the model response under way
}

// start begins a batch. It uses the memory of the previous batch again.
func (e *emitter) start() { e.batch = e.batch[:0] }

// emit adds an output, after the pending reasoning items. Nothing comes between the outputs of one
// call or of one picture: other outputs wait for its end.
func (e *emitter) emit(o Output) {
	if e.waits(&o) {
		e.held = append(e.held, o)
		e.heldBytes += len(o.Text) + outputSize
		return
	}
	e.begun = e.begun || o.Kind != OutputPicture // pictures come after the response
	if len(e.reasoning) > 0 {
		e.batch = append(e.batch, e.reasoning...)
		e.reasoning = e.reasoning[:0]
	}
	if e.counts && o.Kind == OutputText {
		e.chars += utf8.RuneCountInString(o.Text)
	}
	e.batch = append(e.batch, o)
	switch o.Kind {
	case OutputCallStart:
		e.call = o.Call + 1
	case OutputPictureStart:
		e.picture = o.ID
	case OutputCallEnd, OutputPicture:
		e.call, e.picture = 0, ""
		e.emitHeld()
	}
}

// waits reports whether an output has to wait for the end of the call or of the picture under way.
func (e *emitter) waits(o *Output) bool {
	return e.call != 0 && (o.Call != e.call-1 || !o.Kind.ofCall()) || e.picture != "" && (o.ID != e.picture || o.Kind != OutputPicture)
}

// ofCall reports whether an output of the kind is a part of a call.
func (k OutputKind) ofCall() bool {
	return k == OutputCallStart || k == OutputCallArguments || k == OutputCallEnd
}

// emitHeld emits what has waited for the end of a call or of a picture.
func (e *emitter) emitHeld() {
	held := e.held
	e.held, e.heldBytes = nil, 0
	for _, o := range held {
		e.emit(o)
	}
}

const (
	maxHeldBytes = 1 << 20 // of the outputs that wait for the end of a call or of a picture
	outputSize   = 200     // about what an output needs beside its text, in bytes
)

// overfull reports whether too much waits for the end of a call or of a picture. The caller then
// has to end the call or the picture.
func (e *emitter) overfull() bool { return e.heldBytes > maxHeldBytes }

// maxPendingReasoning bounds the number of pending reasoning items; a model has one or
// two before its next output.
const maxPendingReasoning = 64

// endReasoning holds the end of a reasoning item until the next output. If no output follows, the
// client does not get the end: the response may have broken off, and Codex may try again without
// the item.
func (e *emitter) endReasoning(o Output) {
	if len(e.reasoning) < maxPendingReasoning {
		e.reasoning = append(e.reasoning, o)
	}
}

// forgetReasoning drops the reasoning items that are pending.
func (e *emitter) forgetReasoning() { e.reasoning = e.reasoning[:0] }

// fail adds the failure that ends the turn. It drops the pending reasoning items, so that the
// failure is the first output if the client has got nothing else.
func (e *emitter) fail(err error) {
	e.call, e.picture = 0, ""
	e.forgetReasoning()
	e.emit(Output{Kind: OutputFailure, Err: err})
}

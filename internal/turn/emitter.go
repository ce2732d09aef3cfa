package turn

import (
	"slices"
	"unicode/utf8"
)

// emitter collects the outputs of a turn, in the order in which the client gets them.
type emitter struct {
	batch            []Output  // the outputs since the last call of startBatch
	batchMemory      [2]Output // the first memory of batch
	pendingReasoning []Output  // ends of reasoning items, held until the next output
	delays           *delays   // nil: no output has waited, and there was no picture
	chars            int       // number of characters in the text of the turn so far
	countsChars      bool      // false: chars stays 0
	responseStarted  bool      // there was an output of the current model response
}

// delays has the outputs that wait for the end of pictures. Few turns need it.
type delays struct {
	openPicture      string // the id of the picture that has begun but not ended; empty: none
	outputs          []delayedOutput
	bytes            int               // about how much memory outputs needs
	calledPictures   int               // number of pictures that the model has called for before the current output
	expectedPictures []expectedPicture // those of them that have not ended, in the order of the calls
}

// expectedPicture is a picture that the model has called for and that has not ended.
type expectedPicture struct {
	id     string
	number int // how many pictures the model has called for before
}

// delayedOutput is an output that waits.
type delayedOutput struct {
	Output
	behind int // how many pictures the model has called for before the output
}

// startBatch begins a batch in the memory of the previous one.
func (e *emitter) startBatch() { e.batch = e.batch[:0] }

// emit adds the pending reasoning items and then an output to the batch. Nothing comes between the
// outputs of one picture: other outputs wait for the end of that picture. All outputs except those of
// pictures also wait for the pictures that the model has called for before.
func (e *emitter) emit(o Output) {
	if o.Kind != OutputPictureStart && o.Kind != OutputPicture { // Codex makes pictures after the response
		e.responseStarted = true
	}
	if e.delays != nil && e.delays.mustWait(&o) {
		d := e.needDelays()
		d.outputs = append(d.outputs, delayedOutput{o, d.calledPictures})
		d.bytes += len(o.Text) + outputSize
		return
	}
	if len(e.pendingReasoning) > 0 {
		e.batch = append(e.batch, e.pendingReasoning...)
		e.pendingReasoning = e.pendingReasoning[:0]
	}
	if e.countsChars && o.Kind == OutputText {
		e.chars += utf8.RuneCountInString(o.Text)
	}
	e.batch = append(e.batch, o)
	switch o.Kind {
	case OutputPictureStart:
		e.needDelays().openPicture = o.ID
	case OutputPicture:
		if d := e.delays; d != nil {
			d.openPicture = ""
			d.expectedPictures = slices.DeleteFunc(d.expectedPictures, func(p expectedPicture) bool { return p.id == o.ID })
		}
		e.emitDelayed()
	}
}

// expectPicture makes later outputs wait until a picture has ended. If several pictures are expected,
// they come in the order in which Codex makes them.
func (e *emitter) expectPicture(id string) {
	d := e.needDelays()
	d.expectedPictures = append(d.expectedPictures, expectedPicture{id, d.calledPictures})
	d.calledPictures++
	e.responseStarted = true
}

// needDelays returns e.delays, and makes it if there is none.
func (e *emitter) needDelays() *delays {
	if e.delays == nil {
		e.delays = new(delays)
	}
	return e.delays
}

// mustWait reports whether an output has to wait for the end of the open picture, or for pictures that
// the model has called for before.
func (d *delays) mustWait(o *Output) bool {
	if d.openPicture != "" {
		return o.ID != d.openPicture || o.Kind != OutputPicture
	}
	isPicture := o.Kind == OutputPictureStart || o.Kind == OutputPicture
	return !isPicture && len(d.expectedPictures) > 0 && d.expectedPictures[0].number < d.calledPictures
}

// emitDelayed emits the outputs that have waited for the end of a picture. Those that still
// have to wait stay in their order.
func (e *emitter) emitDelayed() {
	if !e.hasDelayed() {
		return
	}
	delayed, started := e.delays.outputs, e.responseStarted
	e.delays.outputs, e.delays.bytes = nil, 0
	called := e.delays.calledPictures
	for _, d := range delayed {
		e.delays.calledPictures = d.behind
		e.emit(d.Output)
	}
	e.delays.calledPictures = called
	e.responseStarted = started // the delayed outputs may belong to an earlier response
}

// hasDelayed reports whether outputs wait.
func (e *emitter) hasDelayed() bool { return e.delays != nil && len(e.delays.outputs) > 0 }

const (
	maxDelayedBytes = 1 << 20 // bound of the bytes of delays, see isOverfull
	outputSize      = 200     // about how many bytes an output needs besides its text
)

// isOverfull reports whether the delayed outputs need too much memory. If so, the caller has to end
// the pictures that they wait for.
func (e *emitter) isOverfull() bool { return e.delays != nil && e.delays.bytes > maxDelayedBytes }

// maxPendingReasoning bounds the number of pending reasoning items. Further items are dropped. A
// model has one or two before its next output.
const maxPendingReasoning = 64

// endReasoning holds the end of a reasoning item until the next output. If no output follows, the
// client does not get the end: the response may have broken off, and Codex may try again without
// the item.
func (e *emitter) endReasoning(o Output) {
	if len(e.pendingReasoning) < maxPendingReasoning {
		e.pendingReasoning = append(e.pendingReasoning, o)
	}
}

// forgetReasoning drops the pending reasoning items.
func (e *emitter) forgetReasoning() { e.pendingReasoning = e.pendingReasoning[:0] }

// fail adds the failure that ends the turn. It drops the pending reasoning items. So if the client
// has got nothing else, the failure is the first output.
func (e *emitter) fail(err error) {
	if e.delays != nil {
		e.delays.openPicture, e.delays.expectedPictures = "", nil
	}
	e.forgetReasoning()
	e.emit(Output{Kind: OutputFailure, Err: err})
}

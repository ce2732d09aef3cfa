package turn

import "unicode/utf8"

// emitter collects the outputs of a turn, in the order in which the client gets them.
type emitter struct {
	batch            []Output  // the outputs since the last call of startBatch
	batchMemory      [2]Output // the first memory of batch
	pendingReasoning []Output  // ends of reasoning items, held until the next output
	chars            int       // number of characters in the text of the turn so far
	countsChars      bool      // false: chars stays 0
	responseStarted  bool      // there was an output of the current model response
	onlySummary      bool      // the only outputs are a summary and the end of the turn
}

func (e *emitter) startBatch() { e.batch = e.batch[:0] }

// emit adds the pending reasoning items and then an output to the batch.
func (e *emitter) emit(o Output) {
	if e.onlySummary && o.Kind < OutputSummary {
		return
	}
	e.responseStarted = true
	if len(e.pendingReasoning) > 0 {
		e.batch = append(e.batch, e.pendingReasoning...)
		e.pendingReasoning = e.pendingReasoning[:0]
	}
	if e.countsChars && o.Kind == OutputText {
		e.chars += utf8.RuneCountInString(o.Text)
	}
	e.batch = append(e.batch, o)
}

// maxPendingReasoning bounds the pending reasoning items; more are dropped. A model has one or two.
const maxPendingReasoning = 64

// endReasoning holds the end of a reasoning item until the next output. If no output follows, the client
// does not get the end: the response may have broken off, and Codex may try again without the item.
func (e *emitter) endReasoning(o Output) {
	if !e.onlySummary && len(e.pendingReasoning) < maxPendingReasoning {
		e.pendingReasoning = append(e.pendingReasoning, o)
	}
}

func (e *emitter) forgetReasoning() { e.pendingReasoning = e.pendingReasoning[:0] }

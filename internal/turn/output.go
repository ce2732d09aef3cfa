package turn

import (
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// OutputKind says what an [Output] is.
type OutputKind uint8

const (
	// OutputText is new text of the assistant's message, in Text.
	OutputText OutputKind = iota + 1
	// OutputReasoning is new text of the reasoning summary, in Text. ID is its item, Part its part.
	OutputReasoning
	// OutputReasoningEnd ends the reasoning item ID, which may have no summary. Text has its
	// encrypted content, if there is any. Only for [Options].Items.
	OutputReasoningEnd
	// OutputCall is a tool call: Call, ID and Name are set, and Text has the arguments.
	OutputCall
	// OutputSearchStart begins the provider's web search ID. Only for [Options].Items.
	OutputSearchStart
	// OutputSearchEnd ends the web search ID. Text is JSON of what was done; empty: unknown.
	OutputSearchEnd
	// OutputAnnotations are the current message's annotations, in Text as a JSON array. Their indexes count
	// the characters of the message. Part is the number of characters in the answer before the message.
	OutputAnnotations
	// OutputPicture is the picture that has the ID. Text is the PNG in base64, and Name is the
	// prompt from which the picture was made. Transparent may be set.
	OutputPicture
	// OutputSummary is the summary of the conversation, in Text. Name is what the client keeps of it, sealed.
	OutputSummary
	// OutputFinish is the last output of a turn that did not fail: End is set.
	OutputFinish
	// OutputFailure is the last output of a turn that failed: Err is set.
	OutputFailure
)

var outputKinds = [...]string{
	"", "text", "reasoning", "reasoning_end", "call", "search_start", "search_end", "annotations", "picture", "summary", "finish", "failure",
}

// String returns the kind in a word.
func (k OutputKind) String() string { return outputKinds[k] }

// FinishReason is the finish_reason of a choice (OpenAI chat completions).
type FinishReason string

// The reasons a turn can end for.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishContentFilter FinishReason = "content_filter"
)

// Output is a piece of a turn's answer. The last output of a turn, and no other, is an OutputFinish or
// OutputFailure. Outputs alone decide what clients see, in a stream or a whole answer.
type Output struct {
	Kind OutputKind
	// Gap marks an output that is only a boundary. Between parts of reasoning, it has a Text, for clients
	// that read them as one text. Between messages, only with [Options].Items, it has none.
	Gap bool
	// Transparent says that the picture was asked for with a transparent background.
	Transparent bool
	// Text is what the kind says.
	Text string
	// Call is the call's index within the choice, from 0 in order of creation.
	Call int
	// ID is the call's id on the wire, or Codex's id of another item.
	ID string
	// Part is the index of a summary's part; in OutputAnnotations, the characters before the message.
	Part int
	// Phase is the phase of the message that a Gap ends: commentary or final_answer; empty: unknown.
	Phase string
	// Name is the tool's name as the client declared it. In an OutputPicture or OutputSummary, it is what
	// the kind says.
	Name string
	// End says how the turn ended, in an OutputFinish. In an OutputSummary before an answer, it has the usage so
	// far. In other outputs it is nil.
	End *End
	// Err is a *codexrpc.TurnError, a *codexrpc.CallError, or an error of this package or of codexrpc.
	Err error
}

// End says how a turn without a failure ended. It is not a part of [Output], to keep an Output
// small: most outputs are short pieces of text, and each output is copied several times.
type End struct {
	// Finish says why the turn ended.
	Finish FinishReason
	// StopSequence is the stop sequence that ended the turn; empty: none did.
	StopSequence string
	// Usage counts the turn's tokens.
	Usage codexrpc.Usage
	// Estimated says that this package has estimated a part of Usage, see [Machine.Usage].
	Estimated bool
}

// Report says what a turn did with tool calls and text, for headers, metrics and logs. At the end
// of the turn, each block in Started is also in Flushed or in Aborted.
type Report struct {
	Started int                         // textual blocks begun
	Flushed int                         // textual blocks that were calls
	Aborted map[usetool.AbortReason]int // textual blocks that were no calls; nil: none

	Calls      int  // calls that the client got
	Truncated  bool // there were more calls than the limit allows
	Duplicates int  // calls dropped because they repeat another
	Unoffered  int  // calls of tools that are not the client's
	Unwritable int  // calls that the client got without a block, since their arguments cannot be written as a block
	TailBytes  int  // bytes of text after the last call that were dropped

	Pictures    int  // pictures that the client got
	TextDiffers bool // the whole text of a message differs from the deltas before
}

func (r *Report) abort(reason usetool.AbortReason) {
	if r.Aborted == nil {
		r.Aborted = make(map[usetool.AbortReason]int)
	}
	r.Aborted[reason]++
}

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

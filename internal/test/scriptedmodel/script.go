package scriptedmodel

import "time"

// ChunkAll, as the Chunk of a [Script], sends each text in one delta.
const ChunkAll = -1

// Script is what the model does in answer to one request. The zero Script is an
// empty response that ends well.
type Script struct {
	// Output is what the response holds, in order.
	Output []Output

	// End says how the response ends. Nil: response.completed.
	End End

	// Chunk is the size of the deltas of texts and arguments, in bytes; a
	// delta never cuts a character. Zero: as the server's options say.
	// ChunkAll: one delta.
	Chunk int

	// Delay is the pause before each delta but the first, FirstDelay the one
	// before the first output. Zero: as the server's options say.
	Delay, FirstDelay time.Duration

	// Usage is what the response is said to have cost. Nil: DefaultUsage.
	Usage *Usage
}

// Usage counts tokens.
type Usage struct {
	Input, Cached, Output, Reasoning int
}

// DefaultUsage is the usage of a response whose script does not say: whatever
// its length, 123 tokens of input, 23 of them cached, and 45 tokens of output, 5 of
// them for reasoning.
var DefaultUsage = Usage{Input: 123, Cached: 23, Output: 45, Reasoning: 5}

// Output is one output item of a response: [Say], [Reason] or [Call].
type Output interface{ isOutput() }

// Say is a message with this text.
type Say string

// Reason is a reasoning item with this text as its summary. An empty line
// separates the parts of the summary.
type Reason string

// Call is a function call. Arguments are sent as they are, be they JSON or not.
type Call struct {
	Name, Arguments string
	// ID is the call id. Empty: one that no other call has.
	ID string
}

func (Say) isOutput()    {}
func (Reason) isOutput() {}
func (Call) isOutput()   {}

// End is a way for a response to end other than well: [HTTPError], [UsageLimit],
// [ForeignInstructions], [Failed], [Incomplete], [Cut] or [Hang].
type End interface{ isEnd() }

// HTTPError refuses the request with this status. The output is not played.
type HTTPError struct {
	Status int
	// RetryAfter is the value of the Retry-After header, in whole seconds.
	// Zero: no such header.
	RetryAfter time.Duration
	// Code and Message are those of the error in the body. Empty: made up.
	Code, Message string
}

// UsageLimit refuses the request as the backend of a ChatGPT plan does when the
// plan is spent: status 429, the type usage_limit_reached, and in the body and in
// the headers when the plan's window of five hours begins anew. The output is not
// played.
type UsageLimit struct {
	// ResetsIn is the time to the window's end, in whole seconds. Zero: the
	// refusal does not tell, and has no such headers.
	ResetsIn time.Duration
	// Plan is the plan's name. Empty: plus.
	Plan string
}

// ForeignInstructions refuses the request as the backend of a ChatGPT plan does
// when something else stands in the place of Codex's own prompt (see
// [Request.LeadsWithOwnPrompt]): status 400. The output is not played.
type ForeignInstructions struct{}

// Failed ends the response with response.failed and this error.
type Failed struct{ Code, Message string }

// Incomplete ends the response with response.incomplete and this reason,
// max_output_tokens or content_filter. The last output item is incomplete, too.
type Incomplete struct{ Reason string }

// Cut breaks the connection before the end of the last output item: its deltas
// have been sent, the events that say it is done have not.
type Cut struct{}

// Hang falls silent at the same place as [Cut], or before the first event if
// there is no output, until the client goes.
type Hang struct{}

func (HTTPError) isEnd()           {}
func (UsageLimit) isEnd()          {}
func (ForeignInstructions) isEnd() {}
func (Failed) isEnd()              {}
func (Incomplete) isEnd()          {}
func (Cut) isEnd()                 {}
func (Hang) isEnd()                {}

// breaksOff reports whether e leaves the last item of the output unfinished.
func breaksOff(e End) bool {
	switch e.(type) {
	case Cut, Hang:
		return true
	}
	return false
}

package scriptedmodel

import "time"

// ChunkAll, as the Chunk of a [Script], sends each text in one delta, ChunkWords each word.
const (
	ChunkAll   = -1
	ChunkWords = -2
)

// Script is the answer to one request. The zero Script is an empty response that completes.
type Script struct {
	// Output holds the items of the response.
	Output []Output

	// End is how the response ends. Nil means response.completed.
	End End

	// Chunk is the size of deltas in bytes; none cuts a character. Zero is 16.
	Chunk int

	// Delay is the pause before each delta but the first, FirstDelay the one
	// before the first output. A Delay of zero means that of the server's options.
	Delay, FirstDelay time.Duration

	// Usage is the reported usage. Nil means DefaultUsage.
	Usage *Usage

	// Price is what the response costs, a decimal number. Empty: it does not say.
	Price string

	// Header is sent with the response over HTTP.
	Header map[string]string
}

// Usage counts tokens.
type Usage struct {
	Input, Cached, Output, Reasoning int
	// CacheWrite are input tokens that were written to the cache.
	CacheWrite int
}

// DefaultUsage is the usage of a response whose script has none, whatever its length.
var DefaultUsage = Usage{Input: 123, Cached: 23, Output: 45, Reasoning: 5}

// Output is an item of a response: [Say], [Cite], [Reason], [Call] or [Search]; or it is [Hold].
type Output interface{ isOutput() }

// Say is a message with this text.
type Say string

// Reason is a reasoning item with this summary, whose parts are separated by empty lines.
type Reason string

// Call is a function call. Arguments are sent as they are, even if they are not JSON.
type Call struct {
	Name, Arguments string
	// Namespace is that of a tool that is in one.
	Namespace string
	// Custom makes the item a custom_tool_call, as of some of Codex's own tools.
	Custom bool
	// ID is the call id, Item the id of its item. If one is empty, the server makes a unique one.
	ID, Item string
}

// Cite is a message with this text, all of which cites a web page.
type Cite struct{ Text, URL, Title string }

// Search is a web search, which the provider runs by itself.
type Search string

// Hold is no item: the response goes on when the channel is closed.
type Hold <-chan struct{}

func (Hold) isOutput()   {}
func (Say) isOutput()    {}
func (Cite) isOutput()   {}
func (Search) isOutput() {}
func (Reason) isOutput() {}
func (Call) isOutput()   {}

// End is how a response ends if it does not complete: [HTTPError], [UsageLimit],
// [ForeignInstructions], [UnknownModel], [Failed], [Incomplete], [Cut] or [Hang].
type End interface{ isEnd() }

// HTTPError refuses the request with a status. The output is not sent.
type HTTPError struct {
	Status int
	// RetryAfter is the Retry-After header, in whole seconds. Zero means no such header.
	RetryAfter time.Duration
	// Code and Message are those of the error in the body, with defaults.
	Code, Message string
}

// UsageLimit refuses the request as a used up ChatGPT plan does: status 429, usage_limit_reached,
// and the end of its window of five hours in the body and the headers. The output is not sent.
type UsageLimit struct {
	// ResetsIn is the time to the end of the window, in whole seconds. Zero leaves the end out.
	ResetsIn time.Duration
	// Plan is the name of the plan. The default is plus.
	Plan string
	// Header replaces the usual headers, which are those of a plan without other meters.
	Header map[string]string
}

// ForeignInstructions refuses the request with status 400, as a ChatGPT plan does if Codex's own
// prompt is not first ([Request.LeadsWithOwnPrompt]). The output is not sent.
type ForeignInstructions struct{}

// UnknownModel refuses the request with status 400, as a ChatGPT plan does if it does not have the
// model. The output is not sent.
type UnknownModel struct{ Model string }

// Failed ends the response with response.failed and this error.
type Failed struct{ Code, Message string }

// Incomplete ends the response with response.incomplete and this reason,
// max_output_tokens or content_filter. The last output item is incomplete as well.
type Incomplete struct{ Reason string }

// Cut breaks the connection after the last item's deltas, before the events that end it.
type Cut struct {
	// Whole lets the last item end first, so that only the end of the response is missing.
	Whole bool
}

// Hang stops where [Cut] does, or without output before the first event, until the client leaves.
type Hang struct{}

func (HTTPError) isEnd()           {}
func (UsageLimit) isEnd()          {}
func (ForeignInstructions) isEnd() {}
func (UnknownModel) isEnd()        {}
func (Failed) isEnd()              {}
func (Incomplete) isEnd()          {}
func (Cut) isEnd()                 {}
func (Hang) isEnd()                {}

// breaksOff reports whether e leaves the last output item unfinished.
func breaksOff(e End) bool {
	switch e := e.(type) {
	case Cut:
		return !e.Whole
	case Hang:
		return true
	}
	return false
}

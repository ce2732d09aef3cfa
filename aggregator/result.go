package aggregator

import "errors"

var (
	// ErrMalformed is wrapped by [Result.Err] for input that [Stats].Malformed counts.
	ErrMalformed = errors.New("aggregator: malformed input")
	// ErrOverLimit is wrapped by [Result.Err] for input that [Stats].OverLimit counts.
	ErrOverLimit = errors.New("aggregator: a limit is exceeded")
)

// CallType is the type of every call, OpenAI's "function".
const CallType = "function"

// Result has the changes that one ingest made. The caller may keep it.
type Result struct {
	Updated bool    // there are Deltas
	Deltas  []Delta // the calls that changed, in the order of the change; nil if nothing did
	Err     error   // wraps ErrMalformed or ErrOverLimit if a part of the input, or all of it, was ignored for that reason; else nil
}

// Delta is one change of one call: a known name, changed arguments, both, or completeness.
type Delta struct {
	Record          // the call after the change
	Fragment string // the new end of Arguments; all fragments of a call, joined, are its Arguments
	First    bool   // the first delta of the call, which announces its id and name
	// Replaced is true if the text of earlier deltas was wrong (see the package documentation):
	// Fragment, now all of Arguments, replaces it.
	Replaced bool
}

// Record is the current state of a call. Its JSON is an element of OpenAI's message.tool_calls, and
// the JSON of its Function is the older message.function_call, so one Record serves both forms.
type Record struct {
	ID       string `json:"id"`   // of [CallID]; it does not change within a turn
	Type     string `json:"type"` // CallType
	Function `json:"function"`

	Choice      int    `json:"-"` // the index of the choice that the call belongs to
	Index       int    `json:"-"` // the place of the call in its choice, from 0: OpenAI's tool_calls[].index
	BackendID   string `json:"-"` // the backend's id of the call (Codex: call_id, callId), which the tool's answer has to name; empty while none is known
	Done        bool   `json:"-"` // the arguments are complete: the backend said so
	Truncated   bool   `json:"-"` // arguments were lost because of the limit of the choice
	Provisional bool   `json:"-"` // the model's text was not seen: the arguments are JSON that Codex rendered
}

// Function is a call's name and its arguments: JSON as the model wrote it, not parsed or repaired.
type Function struct {
	Name      string `json:"name"` // never empty
	Arguments string `json:"arguments"`
}

// Stats counts an Aggregator's input since New; ResetTurn does not reset it. Most fields count input
// without effect. One event may count several times.
type Stats struct {
	Events  uint64 // events and messages ingested
	Unknown uint64 // the Events without a tool call in any known shape, such as text and usage
	// Malformed counts input that is not a JSON object, members of the wrong type, inputs
	// that identify no call while no call is open, nameless calls in complete messages,
	// names and ids above 4 KiB, and negative indexes of choices.
	Malformed  uint64
	Duplicates uint64 // inputs about a known call that changed nothing, such as snapshots
	Late       uint64 // fragments for a call that was already complete
	// Conflicts counts complete texts that differ from arguments that the model wrote: those that were
	// refused, and those that replaced the arguments.
	Conflicts uint64
	// OverLimit counts calls, argument texts and choices refused, or cut, at the limits.
	OverLimit uint64
}

package aggregator

// CallType is the type of every call, OpenAI's "function".
const CallType = "function"

// Result is what one ingest changed. It is a value of the caller.
type Result struct {
	// Updated is true if there are Deltas.
	Updated bool
	// Deltas holds the calls that changed, in the order of the change. Nil if
	// nothing did.
	Deltas []Delta
}

// Delta is one change of one call: that its name became known, that its arguments
// grew, or both.
type Delta struct {
	// Choice is the index of the choice that the call belongs to.
	Choice int
	// Index is the place of the call among those of its choice, from 0: OpenAI's
	// tool_calls[].index.
	Index int
	// ID is the call's id, tool_<choice>_<ordinal>[_<rand>]. It does not change
	// within a turn.
	ID string
	// Type is CallType.
	Type string
	// BackendID is the id that the backend gave the call (Codex: call_id, callId),
	// by which its answer has to be addressed. Empty while none is known.
	BackendID string
	// Name is the name of the function. It is never empty.
	Name string
	// Arguments is the whole argument text so far, as the backend wrote it. It need
	// not be complete JSON.
	Arguments string
	// Fragment is the new end of Arguments: the Fragments of a call, one behind the
	// other, are its Arguments.
	Fragment string
	// First is true on the first delta of a call, which announces its id and name.
	First bool
	// Replaced is true if the text of earlier deltas was wrong (see the package
	// documentation). Fragment is then all of Arguments, and the earlier text has to be
	// discarded.
	Replaced bool
	// Done is true if the call is complete with this delta.
	Done bool
}

// Record is a call as it stands. Its JSON is an element of OpenAI's
// message.tool_calls, and the JSON of its Function is the older
// message.function_call, so one Record serves both forms.
type Record struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`

	// Choice and Index are those of Delta.
	Choice int `json:"-"`
	Index  int `json:"-"`
	// BackendID is that of Delta.
	BackendID string `json:"-"`
	// Done is true if the backend said that the arguments are complete.
	Done bool `json:"-"`
	// Truncated is true if arguments were lost to the limit of the choice.
	Truncated bool `json:"-"`
	// Provisional is true if the arguments are not the text of the model, which was not
	// seen, but the JSON that Codex made from it.
	Provisional bool `json:"-"`
}

// Function is the name of a call and its arguments: JSON text as the model wrote
// it, neither parsed nor repaired.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Stats counts the input of an Aggregator since New, and the parts of it that had no
// effect. ResetTurn keeps the counts. An event with several calls may count in several
// fields.
type Stats struct {
	// Events is the number of events and messages ingested.
	Events uint64
	// Unknown is the number of events without a tool call in any known shape:
	// text, reasoning, usage, and the kinds that later releases bring.
	Unknown uint64
	// Malformed counts input that is not a JSON object, members of the wrong
	// type, fragments that name no call where none is open, names and ids above
	// 4 KiB, and negative choices.
	Malformed uint64
	// Duplicates counts what named a known call and changed nothing: repeats,
	// snapshots, and the done events that only confirm what the deltas said.
	Duplicates uint64
	// Late counts fragments for a call that was already complete.
	Late uint64
	// Conflicts counts texts that contradict what a call already has: those that
	// replaced it and those that were refused.
	Conflicts uint64
	// OverLimit counts calls, argument texts and choices beyond the limits, of
	// which nothing, or only the part that had room, was kept.
	OverLimit uint64
}

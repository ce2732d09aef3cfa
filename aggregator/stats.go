package aggregator

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

package usetool

// SegmentKind is the kind of a [Segment], as a word for logs.
type SegmentKind string

// The kinds of segments. SegmentText and SegmentBlock have text; the others are for counters and logs. A
// SegmentStarted is followed by a SegmentBlock (a call), a SegmentAborted or a SegmentUndeclared.
const (
	// SegmentText is text outside of blocks, or of a block that was given up.
	SegmentText SegmentKind = "text"
	// SegmentStarted: an opening tag is complete. From now on, the block's text is held.
	SegmentStarted SegmentKind = "started"
	// SegmentBlock is a whole block, with a name, arguments and the text as the model wrote it.
	SegmentBlock SegmentKind = "block"
	// SegmentAborted: the open block was given up for Reason. Its text follows as SegmentText.
	SegmentAborted SegmentKind = "aborted"
	// SegmentUndeclared means that the block is complete and well-formed, but the option Accept of
	// the Scanner refused Name. The text of the block follows as SegmentText.
	SegmentUndeclared SegmentKind = "undeclared"
)

// AbortReason is why a begun block is given up: one of a few values, for labels of a metric.
type AbortReason string

// A Scanner finds the first four. Callers of Finish pass the others, since they know why the text ended.
const (
	// AbortNested is the reason of a block in which another block was opened.
	AbortNested AbortReason = "nested"
	// AbortMalformed is the reason of a block that cannot be read as a call.
	AbortMalformed AbortReason = "malformed"
	// AbortTooLarge is the reason of a block above MaxBlock, an option of the scanner.
	AbortTooLarge AbortReason = "too_large"
	// AbortUnclosed is the reason of a block that is open at the end of its message.
	AbortUnclosed AbortReason = "unclosed"
	// AbortDisconnect is for a client that went away within a block.
	AbortDisconnect AbortReason = "disconnect"
	// AbortInterrupted is for a turn that was interrupted within a block.
	AbortInterrupted AbortReason = "interrupted"
	// AbortError is for a turn that failed within a block.
	AbortError AbortReason = "error"
)

// Segment is one result of an aggregator.Scanner.
type Segment struct {
	// Kind determines which of the other fields are set.
	Kind SegmentKind
	// Text is the text of a SegmentText or SegmentBlock, byte for byte and not empty. In other segments it
	// is empty. It may share memory with the fed text.
	Text      string
	Name      string      // of the tool, of a SegmentBlock or SegmentUndeclared
	Arguments string      // the JSON object of a SegmentBlock
	Reason    AbortReason // of a SegmentAborted
	Err       error       // the fault of a block, if the reason is AbortMalformed
	Block     string      // the text that a SegmentAborted or SegmentUndeclared gives up; it follows as SegmentText
	Pattern   string      // the textual form of a block; empty: <use_tool>, or text outside of blocks
	// Offset is where Text begins in the whole text, in bytes. Without Text, it is where the block's
	// opening tag begins.
	Offset int64
}

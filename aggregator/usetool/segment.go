package usetool

// SegmentKind is the kind of a [Segment], as a word for logs.
type SegmentKind string

// The kinds of segments. SegmentText and SegmentBlock have the text. The others are notices
// for counters and logs: after each SegmentStarted comes one SegmentBlock (the tool buffer
// was flushed), or one SegmentAborted or SegmentUndeclared (it was aborted).
const (
	// SegmentText is text outside of blocks, or of a block that was given up.
	SegmentText SegmentKind = "text"

	// SegmentStarted is a notice: an opening tag is complete, and text is held
	// from now on.
	SegmentStarted SegmentKind = "started"

	// SegmentBlock is one whole block, which has a name, arguments and the text
	// as the model wrote it. It also is the notice that a buffer was flushed.
	SegmentBlock SegmentKind = "block"

	// SegmentAborted is a notice: the begun block is given up for Reason. The
	// text of it follows as SegmentText.
	SegmentAborted SegmentKind = "aborted"

	// SegmentUndeclared is a notice: the block is complete and well-formed, but
	// Accept, an option of the scanner, refused Name. The text of it follows as
	// SegmentText.
	SegmentUndeclared SegmentKind = "undeclared"
)

// AbortReason is why a begun block is given up. The values are few and fixed, so that they
// can be labels of a metric.
type AbortReason string

// The first four come from the scanner; the others are for callers of its Finish, which
// know why the text ended.
const (
	// AbortNested is the reason of a block in which another one was opened.
	AbortNested AbortReason = "nested"
	// AbortMalformed is the reason of a closed block that holds no call.
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

	// Text is the text of a SegmentText or SegmentBlock, byte for byte; never
	// empty there and always empty elsewhere. It may share memory with the piece
	// of text that was fed.
	Text string

	// Name is the tool's name, of a SegmentBlock or SegmentUndeclared.
	Name string

	// Arguments is the JSON object with the arguments, of a SegmentBlock.
	Arguments string

	// Reason is that of a SegmentAborted.
	Reason AbortReason

	// Err is the fault of a block, if the reason is AbortMalformed.
	Err error

	// Pattern is the name of the textual form of a block. Empty: it is a <use_tool>
	// block, or text outside of blocks.
	Pattern string

	// Offset is the position of Text in the whole text that was fed, in bytes
	// from 0; for a notice that of the opening tag.
	Offset int64
}

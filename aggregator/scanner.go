package aggregator

import (
	"cmp"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// DefaultMaxBlock is the default of [ScannerOptions].MaxBlock, in bytes.
const DefaultMaxBlock = 1 << 20

// ScannerOptions say which blocks are calls. The zero value is for Obsidian clients, which run all blocks.
type ScannerOptions struct {
	// MaxBlock is the most bytes of a block, from the opening to the closing tag. A larger block is
	// given up as [usetool.AbortTooLarge]. Zero or less stands for [DefaultMaxBlock].
	MaxBlock int

	// SkipFenced: a block in a fenced code block of Markdown (``` or ~~~) is text, as for clients
	// that get OpenAI's tool_calls. Obsidian clients run fenced blocks, too.
	SkipFenced bool

	// Accept reports whether a complete block of this tool is a call. A refused block becomes a
	// [usetool.SegmentUndeclared], and then text. Nil accepts every name.
	Accept func(name string) bool

	// Patterns are textual forms beside <use_tool>, which have passed [CheckPatterns].
	Patterns []NamedPattern
}

// Scanner finds the blocks in the text of one choice, which it reads in pieces. It returns text as soon as
// this text cannot begin a block. It holds a block back from its opener on, and returns it as a whole. The
// Text of all segments, joined, is the text that was fed. Segments do not depend on how the text was cut
// into pieces, except that text outside blocks may come as several segments.
//
// What a <use_tool> block is:
//
//   - It begins with an opening tag of at most [usetool.MaxOpener] bytes: <use_tool>, or <use_tool
//     with white space, then anything but angle brackets, and >. Case counts, and so does every
//     other byte: <use_tools>, < use_tool> and <USE_TOOL> are text.
//   - <use_tool/>, with or without attributes, is a whole block that names no
//     tool. Outside a block it is malformed, inside a block it is text.
//   - A block ends with the next </use_tool>, spelled exactly so. </use_tool > does not end it, so
//     that a value may contain a closing tag in this spelling.
//   - After <args> and white space comes JSON if the next byte is {, [ or a
//     quote. Up to the end of that value, tags in its strings are part of the
//     strings. If the value turns out not to be JSON (a quote too many, a line break in a
//     string, no end before the end of the text or the limit of the block), tags in
//     its strings count, and the text after the first of them is scanned once more.
//   - Another opening tag inside a block, also in a value like <content>, begins a
//     new block. The outer block is given up as [usetool.AbortNested]: its bytes become
//     text, unchanged. Obsidian clients search the whole text for blocks themselves.
//
// Patterns read only the text between <use_tool> blocks. So a <use_tool> block within a block of a pattern
// is found, as by clients that search the whole text for <use_tool>, and the outer block is given up as
// [usetool.AbortNested]. Of the openers that match, the one that ends first begins the block; of several
// that end at the same byte, the longest.
//
// Memory is bounded by MaxBlock. A Scanner must not be used by several goroutines at once.
type Scanner struct {
	useTool  layer
	patterns *layer // nil: there are none
	segments []usetool.Segment
}

// NewScanner returns a Scanner at the beginning of a choice's text.
func NewScanner(opts ScannerOptions) *Scanner {
	if opts.MaxBlock <= 0 {
		opts.MaxBlock = DefaultMaxBlock
	}
	s := &Scanner{useTool: layer{opts: &opts, forms: useToolForms}}
	if len(opts.Patterns) > 0 {
		s.patterns = &layer{opts: &opts}
		for _, p := range opts.Patterns {
			s.patterns.forms = append(s.patterns.forms, blockForm{p, p.Pattern.Opener()})
		}
	}
	return s
}

// Feed reads the next piece of the text, which may be cut anywhere. It appends to out the segments that are
// already certain, and returns out. Text in which no opener may begin shares the memory of the piece. A
// [usetool.SegmentText] never ends in a UTF-8 sequence that the next piece may complete.
func (s *Scanner) Feed(text string, out []usetool.Segment) []usetool.Segment {
	if s.patterns == nil {
		return s.useTool.feed(text, out)
	}
	s.segments = s.useTool.feed(text, s.segments[:0])
	return s.forward(out)
}

// Finish ends a message: it appends all held text to out, and returns out. An open block becomes text,
// after a SegmentAborted with the given reason (empty: [usetool.AbortUnclosed]). Then the next message of
// the choice may be fed; its offsets continue. Calling Finish again adds nothing.
func (s *Scanner) Finish(reason usetool.AbortReason, out []usetool.Segment) []usetool.Segment {
	reason = cmp.Or(reason, usetool.AbortUnclosed)
	if s.patterns == nil {
		return s.useTool.finish(reason, codeFence{}, out)
	}
	s.segments = s.useTool.finish(reason, codeFence{}, s.segments[:0])
	return s.patterns.finish(reason, codeFence{}, s.forward(out))
}

// forward appends the segments of the <use_tool> layer to out. Their text passes through the patterns'
// layer first.
func (s *Scanner) forward(out []usetool.Segment) []usetool.Segment {
	for i := range s.segments {
		segment := &s.segments[i]
		switch segment.Kind {
		case usetool.SegmentText:
			if len(s.patterns.held) == 0 {
				s.patterns.offset = segment.Offset // the layer itself does not see the <use_tool> blocks between its texts
			}
			out = s.patterns.feed(segment.Text, out)
		case usetool.SegmentBlock:
			out = append(s.patterns.finish(usetool.AbortNested, fenceAfterText(), out), *segment)
		default:
			out = append(out, *segment)
		}
	}
	clear(s.segments)
	return out
}

// Open reports whether a block is held back: its opener is complete, but not its end.
func (s *Scanner) Open() bool {
	return s.useTool.reader != nil || s.patterns != nil && s.patterns.reader != nil
}

// Held returns how many bytes are held: a block, or the beginning of an opener or a UTF-8 sequence.
func (s *Scanner) Held() int {
	held := len(s.useTool.held)
	if s.patterns != nil {
		held += len(s.patterns.held)
	}
	return held
}

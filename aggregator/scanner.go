package aggregator

import (
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
)

// DefaultMaxBlock is the default of [ScannerOptions].MaxBlock, in bytes.
const DefaultMaxBlock = 1 << 20

// ScannerOptions define which blocks are calls, and how large one may be. The zero value is
// right for Obsidian clients, which act on every <use_tool> block.
type ScannerOptions struct {
	// MaxBlock is the most bytes of a block, from the opening to the closing tag. A larger block is
	// given up as [usetool.AbortTooLarge]. Zero or less stands for [DefaultMaxBlock].
	MaxBlock int

	// SkipFenced means that a block is text, not a call, if it begins inside a fenced code
	// block of Markdown (``` or ~~~). It is meant for clients that get OpenAI's tool_calls:
	// Obsidian clients run fenced blocks, too.
	SkipFenced bool

	// Accept reports whether a complete block with this tool name is a call. If Accept returns
	// false, the Scanner returns a [usetool.SegmentUndeclared], and then the block as text. Nil
	// accepts every name.
	Accept func(name string) bool

	// Patterns are textual forms beside <use_tool>. They must have passed
	// [CheckPatterns].
	Patterns []NamedPattern
}

// Scanner finds the blocks in the text of one choice, which it reads in pieces. It returns text
// outside blocks as soon as the text cannot be the beginning of a block. It holds a block back from
// its opener to its end, and then returns the whole block. Nothing is lost or returned twice: the
// Text of all segments, joined, is the text that was fed. The segments do not depend on how the
// text was cut, except that text outside blocks may come as several segments.
//
// What a <use_tool> block is:
//
//   - It begins with an opening tag of at most [usetool.MaxOpener] bytes: <use_tool>, or <use_tool
//     with white space, then anything but angle brackets, and >. Case counts, and so does every
//     other byte: <use_tools>, < use_tool> and <USE_TOOL> are text.
//   - <use_tool/>, with or without attributes, is a whole block that names no
//     tool. Outside a block it is malformed, inside one it is text.
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
// Patterns read only the text between the <use_tool> blocks. So a <use_tool> block is also found
// inside a block of another pattern. This outer block is then given up as [usetool.AbortNested].
// Clients that search a whole text for <use_tool> blocks find the inner block, too. If the openers
// of several patterns match, the opener that ends first begins the block. If several openers end
// with the same byte, the longest of them begins it.
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

// Feed reads the next piece of the text, which may be cut anywhere. It appends to out the segments
// that are already certain, and returns out. Text without the beginning of an opener is returned as
// a substring of the piece. A [usetool.SegmentText] never ends inside a UTF-8 sequence that the
// next piece may complete.
func (s *Scanner) Feed(text string, out []usetool.Segment) []usetool.Segment {
	if s.patterns == nil {
		return s.useTool.feed(text, out)
	}
	s.segments = s.useTool.feed(text, s.segments[:0])
	return s.forward(out)
}

// skip reads the next piece, as Feed does, if the piece is one segment of text, nothing is held,
// and there are no patterns. It reports whether it has read the piece.
func (s *Scanner) skip(text string) bool { return s.patterns == nil && s.useTool.skip(text) }

// Finish ends a message: it appends everything held to out, and returns out. A begun opener or an
// open block becomes text. reason is the Reason of the open block's SegmentAborted; an empty reason
// stands for [usetool.AbortUnclosed]. The Scanner is then ready for the next message of the choice,
// whose offsets continue those of the ended message. Calling Finish again adds nothing to out.
func (s *Scanner) Finish(reason usetool.AbortReason, out []usetool.Segment) []usetool.Segment {
	if reason == "" {
		reason = usetool.AbortUnclosed
	}
	if s.patterns == nil {
		return s.useTool.finish(reason, codeFence{}, out)
	}
	s.segments = s.useTool.finish(reason, codeFence{}, s.segments[:0])
	return s.patterns.finish(reason, codeFence{}, s.forward(out))
}

// forward appends the segments of the <use_tool> layer to out, and returns out. Segments of text
// first go through the layer of the patterns.
func (s *Scanner) forward(out []usetool.Segment) []usetool.Segment {
	for i := range s.segments {
		segment := &s.segments[i]
		switch segment.Kind {
		case usetool.SegmentText:
			if len(s.patterns.held) == 0 {
				s.patterns.offset = segment.Offset // set here, since this layer does not get the <use_tool> blocks
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

// Open reports whether the Scanner holds back a block: the opener of the block is complete, but its
// end has not come.
func (s *Scanner) Open() bool {
	return s.useTool.reader != nil || s.patterns != nil && s.patterns.reader != nil
}

// Held returns the number of bytes held back between two calls of Feed. These are an open block,
// the beginning of an opener, or up to three bytes of a UTF-8 sequence.
func (s *Scanner) Held() int {
	held := len(s.useTool.held)
	if s.patterns != nil {
		held += len(s.patterns.held)
	}
	return held
}

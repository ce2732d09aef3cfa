package aggregator

import (
	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/markdown"
)

// ScannerOptions are the options of a [Scanner].
type ScannerOptions struct {
	// These hold for the blocks of every pattern.
	usetool.ScannerOptions
	// Patterns are textual forms beside <use_tool>. They must have passed
	// [CheckPatterns].
	Patterns []NamedPattern
}

// Scanner is the tool buffer of one choice for several textual forms of calls: a
// [usetool.Scanner], and behind it the patterns. It is fed the text of a model's
// messages in pieces, and takes the blocks out of it. Nothing is lost and nothing
// given twice: the Text of all segments, joined, is the text fed. The segments do
// not depend on how the text was cut, except that a stretch of text may come as
// several segments.
//
// Patterns read the text that is left between the <use_tool> blocks. So a <use_tool>
// block is found wherever it stands, as clients find it that search a whole text: a
// block of another pattern that is open there is given up as [usetool.AbortNested].
// Of the patterns the one whose opener is complete first reads the block; of openers
// that are complete with the same byte the longest one counts.
//
// A Scanner must not be used by several goroutines at once.
type Scanner struct {
	useTool  *usetool.Scanner
	patterns *patternScanner // nil: there are none
	segments []usetool.Segment
}

// NewScanner returns a Scanner at the beginning of a choice's text.
func NewScanner(opts ScannerOptions) *Scanner {
	s := &Scanner{useTool: usetool.NewScanner(opts.ScannerOptions)}
	if len(opts.Patterns) > 0 {
		s.patterns = newPatternScanner(opts)
	}
	return s
}

// Feed takes the next piece of the text, cut anywhere, appends the segments that are
// certain now to out and returns it.
func (s *Scanner) Feed(text string, out []usetool.Segment) []usetool.Segment {
	if s.patterns == nil {
		return s.useTool.Feed(text, out)
	}
	s.segments = s.useTool.Feed(text, s.segments[:0])
	return s.forward(out)
}

// Finish ends a message: it appends everything held to out and returns it. A begun
// opener is text. An open block is given up for the reason, the empty one standing
// for [usetool.AbortUnclosed]. The Scanner is then ready for the next message of the
// choice.
func (s *Scanner) Finish(reason usetool.AbortReason, out []usetool.Segment) []usetool.Segment {
	if s.patterns == nil {
		return s.useTool.Finish(reason, out)
	}
	s.segments = s.useTool.Finish(reason, s.segments[:0])
	return s.patterns.end(reason, markdown.Fence{}, s.forward(out))
}

// forward passes the segments of the <use_tool> scanner on, their text by way of the
// patterns.
func (s *Scanner) forward(out []usetool.Segment) []usetool.Segment {
	for i := range s.segments {
		segment := &s.segments[i]
		switch segment.Kind {
		case usetool.SegmentText:
			out = s.patterns.feed(segment, out)
		case usetool.SegmentBlock:
			out = append(s.patterns.end(usetool.AbortNested, markdown.AfterText(), out), *segment)
		default:
			out = append(out, *segment)
		}
	}
	clear(s.segments)
	return out
}

// Open reports whether a block is being held: its opener is complete, its end has
// not come.
func (s *Scanner) Open() bool {
	return s.useTool.Open() || s.patterns != nil && s.patterns.open != nil
}

// Held returns the number of bytes that are held back between two calls of Feed.
func (s *Scanner) Held() int {
	held := s.useTool.Held()
	if s.patterns != nil {
		held += s.patterns.held()
	}
	return held
}

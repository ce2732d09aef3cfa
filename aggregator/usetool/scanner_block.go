package usetool

import (
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/markdown"
)

// marker is the first tag that was seen inside a string of the JSON value in
// progress: the tag that ends the block if the value turns out not to be JSON.
type marker struct {
	kind  tagEvent       // tagClosed or tagOpened; tagNothing: none was seen
	end   int            // bytes of the block up to it, a closing tag included
	fence markdown.Fence // the state at end
}

// blockByte looks at byte i inside a block. It returns the index of the last
// byte looked at, which is before i if there are bytes to look at again.
func (s *Scanner) blockByte(i int) int {
	b := s.text[i]
	s.blockFence(b)
	if s.pending(i+1) > s.opts.MaxBlock {
		return s.overflow(s.tag.step(b, true), i)
	}
	switch s.args.Step(b) {
	case jsontext.EndOfJSON:
		// Tags in its strings are data, and so is one that began there.
		s.tag, s.mark = tagMatcher{}, marker{}
	case jsontext.BrokenJSON:
		if s.mark.kind != tagNothing {
			return s.lookAgain(i)
		}
	}
	event := s.tag.step(b, true)
	switch {
	case event == tagArgs && !s.args.Active():
		s.args.Begin()
	case event != tagClosed && event != tagOpened:
	case s.args.Active():
		s.remember(event, i)
	case event == tagClosed:
		s.closeBlock(s.pending(i + 1))
	default:
		s.nested(event, i)
	}
	return i
}

// blockFence follows the code fences within a block, which is text if it is given up.
func (s *Scanner) blockFence(b byte) {
	if !s.opts.SkipFenced {
		return
	}
	if b == '<' {
		s.tagFence = s.fence
	}
	s.fence.Step(b)
	if b == '<' {
		s.tagSkipped = s.fence.Inside()
	}
}

// remember notes a tag inside a JSON string that ends with byte i, if it is the
// first one.
func (s *Scanner) remember(event tagEvent, i int) {
	switch {
	case s.mark.kind != tagNothing:
	case event == tagClosed:
		s.mark = marker{kind: event, end: s.pending(i + 1), fence: s.fence}
	default:
		s.mark = marker{kind: event, end: s.pending(i+1) - s.tag.n, fence: s.tagFence}
	}
}

// lookAgain ends the block at its marker and scans the text behind it, up to byte i, once
// more.
//
// No byte is scanned a third time, since the lexer accepts neither < nor a backslash
// outside of strings. Let a block end at a tag in a string of its broken
// value. Assume that in the text that is then read again there is another block
// whose broken value has a tag in a string, before the byte that broke the first
// value. The opening tag of that block stood in a string of the first value. Its
// first quote ended that string for the first value and began one for its own, and
// so did each later quote, as no backslash stands where one of the two values is
// outside a string. So its tag stood outside the strings of the first value and
// broke it earlier: a contradiction.
func (s *Scanner) lookAgain(i int) int {
	s.resolve()
	last := s.again()
	s.looks += int64(i - last)
	return last
}

// resolve ends the block at its marker.
func (s *Scanner) resolve() {
	mark := s.mark
	s.fence = mark.fence
	if mark.kind == tagClosed {
		s.closeBlock(mark.end)
		return
	}
	s.abort(AbortNested, nil)
	s.emitSegment(mark.end)
}

// closeBlock returns the first n pending bytes, from <use_tool to </use_tool>: as a block
// if they are one, else as text.
func (s *Scanner) closeBlock(n int) {
	offset := s.at
	text := s.take(n)
	s.leave()
	name, arguments, err := parseBlock(text)
	switch {
	case err != nil:
		s.emit(Segment{Kind: SegmentAborted, Reason: AbortMalformed, Err: err, Offset: offset})
	case s.opts.Accept != nil && !s.opts.Accept(name):
		s.emit(Segment{Kind: SegmentUndeclared, Name: name, Offset: offset})
	default:
		s.fence = markdown.AfterText() // what it holds is no Markdown
		s.emit(Segment{Kind: SegmentBlock, Text: text, Name: name, Arguments: arguments, Offset: offset})
		return
	}
	s.emit(Segment{Kind: SegmentText, Text: text, Offset: offset})
}

// nested gives the open block up for the one whose opening tag ends with byte
// i. If that tag stands in a code fence, it is text as well.
func (s *Scanner) nested(event tagEvent, i int) {
	inner := s.tag
	s.abort(AbortNested, nil)
	if !s.tagSkipped {
		s.tag = inner
		s.begin(event, i)
	}
}

// overflow gives up the block, which is too large with byte i, unless it can be ended at
// its marker. An opening tag that is begun, or complete with this byte, begins another
// block.
func (s *Scanner) overflow(event tagEvent, i int) int {
	if s.mark.kind != tagNothing {
		return s.lookAgain(i)
	}
	inner := s.tag
	s.abort(AbortTooLarge, nil)
	opening := inner.opening() || event == tagOpened || event == tagSelfClosed
	if opening && !s.tagSkipped {
		s.tag = inner
		s.begin(event, i)
	}
	return i
}

// abort gives the open block up. Its bytes stay pending and are returned as text.
func (s *Scanner) abort(reason AbortReason, err error) {
	s.emit(Segment{Kind: SegmentAborted, Reason: reason, Err: err, Offset: s.at})
	s.leave()
}

// leave goes back to the state outside a block.
func (s *Scanner) leave() {
	s.open = false
	s.tag, s.args, s.mark = tagMatcher{}, jsontext.Lexer{}, marker{}
}

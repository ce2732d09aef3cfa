package aggregator

import (
	"errors"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/markdown"
)

// The errors of malformed blocks, besides those of Parse.
var (
	errBroken = errors.New("aggregator: the block breaks off")
	errName   = errors.New("aggregator: the name of the tool is empty or too long")
)

// patternScanner takes the blocks of patterns out of the text between <use_tool>
// blocks. Each byte is given to at most one block reader, and compared with the
// openers if it is in no block, or if it broke the block.
//
// What was fed and not given out is pending. In this order it is text of the current
// piece, and either an open block or the beginning of an opener.
type patternScanner struct {
	opts    ScannerOptions
	openers []string  // of opts.Patterns
	first   [256]bool // the bytes with which an opener begins

	at     int64  // offset of the first pending byte
	begun  []byte // the beginning of an opener
	fenced uint64 // which of the last bytes are in a code fence; bit 0 is the last one
	fence  markdown.Fence

	open   *NamedPattern // the pattern of the open block; nil: no block is open
	reader BlockReader
	block  []byte              // the open block
	giveUp usetool.AbortReason // why the open block is not one, though it still takes the rest of a character
	over   int                 // bytes of that rest

	piece string // the current piece of text
	base  int64  // its offset
	out   []usetool.Segment
}

func newPatternScanner(opts ScannerOptions) *patternScanner {
	if opts.MaxBlock <= 0 {
		opts.MaxBlock = usetool.DefaultMaxBlock
	}
	s := &patternScanner{opts: opts}
	for _, p := range opts.Patterns {
		opener := p.Pattern.Opener()
		s.openers = append(s.openers, opener)
		s.first[opener[0]] = true
	}
	return s
}

// held returns the number of pending bytes between two calls of feed.
func (s *patternScanner) held() int { return len(s.begun) + len(s.block) }

// feed takes the next text, appends the segments that are certain now and returns
// them.
func (s *patternScanner) feed(segment *usetool.Segment, out []usetool.Segment) []usetool.Segment {
	s.out, s.piece, s.base = out, segment.Text, segment.Offset
	if s.held() == 0 {
		s.at = s.base
	}
	for i := 0; i < len(s.piece); i++ {
		if s.open == nil && len(s.begun) == 0 && !s.opts.SkipFenced {
			for i < len(s.piece) && !s.first[s.piece[i]] {
				i++
			}
			if i == len(s.piece) {
				break
			}
		}
		s.take(i)
	}
	s.giveTo(s.base + int64(len(s.piece)-s.held()))
	out, s.out, s.piece = s.out, nil, ""
	return out
}

// end returns everything that is held: an open block is given up for the reason (empty:
// [usetool.AbortUnclosed]), and the beginning of an opener is text. The scanner is then at
// the beginning of another text, with this fence.
func (s *patternScanner) end(reason usetool.AbortReason, fence markdown.Fence, out []usetool.Segment) []usetool.Segment {
	s.out = out
	if reason == "" {
		reason = usetool.AbortUnclosed
	}
	if s.open != nil {
		if s.giveUp == "" {
			s.giveUp = reason
		}
		s.abort(0)
	}
	s.give(string(s.begun))
	s.begun, s.fenced, s.fence = s.begun[:0], 0, fence
	out, s.out = s.out, nil
	return out
}

// take looks at byte i of the piece.
func (s *patternScanner) take(i int) {
	b := s.piece[i]
	if s.opts.SkipFenced {
		s.fence.Step(b)
		s.fenced <<= 1
		if s.fence.Inside() {
			s.fenced |= 1
		}
	}
	if s.open == nil {
		s.search(i)
		return
	}
	if s.giveUp == "" {
		state := s.reader.Next(b)
		switch {
		case state > BlockComplete:
			s.giveUp = usetool.AbortMalformed
		case len(s.block) >= s.opts.MaxBlock:
			s.giveUp = usetool.AbortTooLarge
		case state == BlockComplete:
			s.block = append(s.block, b)
			s.complete()
			return
		}
	}
	if s.giveUp != "" {
		// The block becomes text, which must not end inside of a character.
		if utf8.RuneStart(b) || s.over == utf8.UTFMax-1 {
			s.abort(1)
			s.search(i)
			return
		}
		s.over++
	}
	s.block = append(s.block, b)
}

// search adds byte i of the piece to the beginning of an opener, and opens a block if
// one is complete.
func (s *patternScanner) search(i int) {
	s.begun = append(s.begun, s.piece[i])
	keep := len(s.begun)
	for k := range s.begun {
		if s.isFenced(len(s.begun) - k - 1) {
			continue // no block begins there
		}
		pattern, prefix := s.match(s.begun[k:])
		if pattern != nil {
			s.drop(k, i)
			s.begin(pattern, i)
			return
		}
		if prefix {
			keep = min(keep, k)
		}
	}
	s.drop(keep, i)
}

// isFenced reports whether the byte so many bytes before the last one is in a fence.
func (s *patternScanner) isFenced(before int) bool { return s.fenced>>before&1 == 1 }

// match returns the pattern whose opener a text is, and whether the text is the
// beginning of another opener.
func (s *patternScanner) match(text []byte) (complete *NamedPattern, prefix bool) {
	for i, opener := range s.openers {
		switch {
		case len(text) > len(opener) || opener[:len(text)] != string(text):
		case len(text) == len(opener):
			return &s.opts.Patterns[i], false
		default:
			prefix = true
		}
	}
	return nil, prefix
}

// drop makes the first k bytes of what is begun, which ends with byte i of the piece,
// text. What is of an earlier piece goes out at once.
func (s *patternScanner) drop(k, i int) {
	if earlier := len(s.begun) - (i + 1); earlier > 0 {
		s.give(string(s.begun[:min(k, earlier)]))
	}
	s.begun = s.begun[:copy(s.begun, s.begun[k:])]
}

// begin opens a block whose opener, which is all that is begun, ends with byte i of
// the piece.
func (s *patternScanner) begin(pattern *NamedPattern, i int) {
	s.giveTo(s.base + int64(i+1-len(s.begun)))
	s.out = append(s.out, usetool.Segment{Kind: usetool.SegmentStarted, Pattern: pattern.Name, Offset: s.at})
	s.open, s.reader = pattern, pattern.Pattern.Begin()
	s.block = append(s.block, s.begun...)
	s.begun = s.begun[:0]
}

// complete returns the open block, whose last byte was read.
func (s *patternScanner) complete() {
	text := string(s.block)
	name, arguments, err := s.open.Pattern.Parse(text)
	if err == nil && (name == "" || len(name) > maxNameBytes) {
		err = errName
	}
	segment := usetool.Segment{Name: name, Pattern: s.open.Name, Offset: s.at}
	switch {
	case err != nil:
		segment = usetool.Segment{Reason: usetool.AbortMalformed, Err: err, Pattern: s.open.Name, Offset: s.at}
		segment.Kind = usetool.SegmentAborted
	case s.opts.Accept != nil && !s.opts.Accept(name):
		segment.Kind = usetool.SegmentUndeclared
	default:
		segment.Kind, segment.Text, segment.Arguments = usetool.SegmentBlock, text, arguments
	}
	s.out = append(s.out, segment)
	s.leave()
	if segment.Kind == usetool.SegmentBlock {
		s.at += int64(len(text))
		s.fence = markdown.AfterText() // what it holds is no Markdown
		return
	}
	s.give(text)
}

// abort gives the open block up. The beginning of an opener that is at its end stays
// pending. read is how many bytes behind the block have been read.
func (s *patternScanner) abort(read int) {
	segment := usetool.Segment{Kind: usetool.SegmentAborted, Reason: s.giveUp, Pattern: s.open.Name, Offset: s.at}
	if s.giveUp == usetool.AbortMalformed {
		segment.Err = errBroken
	}
	s.out = append(s.out, segment)
	k := s.beginning(read)
	text := string(s.block[:k])
	s.begun = append(s.begun, s.block[k:]...)
	s.leave()
	s.give(text)
}

// beginning returns the place in the block, which is given up, at which an opener has
// begun that is not complete; the end of the block if there is none.
func (s *patternScanner) beginning(read int) int {
	for k := max(1, len(s.block)-MaxOpener+1); k < len(s.block); k++ {
		if !s.first[s.block[k]] || s.isFenced(len(s.block)-k-1+read) {
			continue
		}
		if _, prefix := s.match(s.block[k:]); prefix {
			return k
		}
	}
	return len(s.block)
}

// leave goes back to the state outside of a block.
func (s *patternScanner) leave() {
	s.open, s.reader, s.giveUp, s.over = nil, nil, "", 0
	s.block = s.block[:0]
}

// giveTo gives out the text of the piece up to an offset.
func (s *patternScanner) giveTo(offset int64) {
	if offset > s.at {
		s.give(s.piece[s.at-s.base : offset-s.base])
	}
}

// give gives out the first pending bytes, which are text.
func (s *patternScanner) give(text string) {
	if text != "" {
		s.out = append(s.out, usetool.Segment{Kind: usetool.SegmentText, Text: text, Offset: s.at})
		s.at += int64(len(text))
	}
}

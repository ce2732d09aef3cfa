package usetool

import (
	"errors"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
	"github.com/caddy-codex/caddy-codex/internal/markdown"
)

// DefaultMaxBlock is the limit of a block, in bytes, unless [ScannerOptions].MaxBlock sets
// another.
const DefaultMaxBlock = 1 << 20

// errSelfClosed is the error of <use_tool/>, which cannot name a tool.
var errSelfClosed = errors.New("usetool: the <use_tool/> tag holds no call")

// ScannerOptions define which blocks are calls, and how large one may be. The zero value is
// right for Obsidian clients, which act on every block.
type ScannerOptions struct {
	// MaxBlock is the size, in bytes from the opening to the closing tag, above
	// which a block is given up as [AbortTooLarge]. Zero or less stands for
	// [DefaultMaxBlock].
	MaxBlock int

	// SkipFenced leaves blocks that begin inside a fenced code block of Markdown
	// (``` or ~~~) alone: they are text. Obsidian clients act on fenced blocks
	// as on others, so it is meant for callers that ask for OpenAI's form.
	SkipFenced bool

	// Accept reports whether a complete block with this tool name is a call. Others are
	// text, announced by [SegmentUndeclared]. Nil accepts any.
	Accept func(name string) bool
}

// Scanner is the tool buffer of one choice. It is fed the text of a model's messages in
// pieces and takes the <use_tool> blocks out of it. Text outside blocks is returned at
// once. From <use_tool on, text is held until </use_tool> has come, and then returned as
// one block. Nothing is lost or returned twice: the Text of all segments, joined, is the
// text that was fed. The segments do not depend on how the text was cut, except that text
// outside blocks may come as several segments.
//
// What a block is:
//
//   - It begins with <use_tool>, or <use_tool, white space, anything but angle
//     brackets, and >, in [MaxOpener] bytes at most. Case counts, and so does
//     every other byte: <use_tools>, < use_tool> and <USE_TOOL> are text.
//   - <use_tool/>, with or without attributes, is a whole block that names no
//     tool: malformed outside a block, and no more than text inside one.
//   - It ends with the next </use_tool>, to the letter. </use_tool > does not
//     end it: that is how a closing tag is written within a value.
//   - After <args> and white space comes JSON if the next byte is {, [ or a
//     quote. To the end of that value tags in its strings are part of the
//     strings. If it turns out not to be JSON (a quote too many, a line break in a
//     string, no end before the end of the text or the limit of the block), those
//     tags count, and the text after the first of them is scanned again, once.
//   - Another opening tag inside a block, also in a value like <content>, ends it:
//     the outer block is given up as [AbortNested], and the inner one begins. So a
//     block whose value mentions <use_tool> is text, unchanged. Obsidian clients
//     take the blocks out of the whole text themselves.
//
// Each byte is scanned once, or twice after a broken JSON value; the proof is in the
// comment of lookAgain. Memory is bounded by MaxBlock. A Scanner must not be used by
// several goroutines at once.
type Scanner struct {
	opts ScannerOptions

	// What was fed and not given out is pending: held, and after it the part of
	// text from start up to the byte being looked at. If held is not empty,
	// start is 0. While a block is open, pending begins with its opening tag.
	held  []byte
	text  string
	start int
	at    int64 // offset of the first pending byte in the whole text

	open       bool // a block is open
	tag        tagMatcher
	tagFence   markdown.Fence // the fence before the last < of an open block
	tagSkipped bool           // the last < stood inside a fence
	args       jsontext.Lexer
	mark       marker
	fence      markdown.Fence

	out   []Segment
	looks int64 // bytes looked at, for the tests of linear cost
}

// NewScanner returns a Scanner at the beginning of a choice's text.
func NewScanner(opts ScannerOptions) *Scanner {
	if opts.MaxBlock <= 0 {
		opts.MaxBlock = DefaultMaxBlock
	}
	return &Scanner{opts: opts}
}

// Feed takes the next piece of the text, cut anywhere, appends the segments
// that are certain now to out and returns it. Text without < is given as a
// substring of the piece. A [SegmentText] never ends inside a UTF-8 sequence
// that may yet become whole.
func (s *Scanner) Feed(text string, out []Segment) []Segment {
	s.out = out
	s.scan(text)
	out, s.out = s.out, nil
	return out
}

// Finish ends a message: it appends everything held to out and returns it. A
// begun tag is text; an open block is given up for the reason, the empty one
// standing for [AbortUnclosed]. The Scanner is then ready for the next message
// of the choice, whose offsets continue those of this one. Calling Finish again returns
// nothing.
func (s *Scanner) Finish(reason AbortReason, out []Segment) []Segment {
	s.out = out
	for s.open && s.mark.kind != tagNothing {
		s.resolve()
		s.again()
	}
	if s.open {
		if reason == "" {
			reason = AbortUnclosed
		}
		s.abort(reason, nil)
	}
	s.emitText(len(s.held))
	s.tag, s.fence = tagMatcher{}, markdown.Fence{}
	out, s.out = s.out, nil
	return out
}

// Open reports whether a block is being held: its opening tag is complete, its
// closing tag has not come.
func (s *Scanner) Open() bool {
	return s.open
}

// Held returns the number of bytes held back between two calls of Feed: the
// open block, else at most [MaxOpener] bytes of a begun tag, or up to three of
// a UTF-8 sequence.
func (s *Scanner) Held() int {
	return len(s.held)
}

// scan looks at each byte of text. It is Feed without the handling of out, so
// that held text can be read again as if it were fed again.
func (s *Scanner) scan(text string) {
	s.text, s.start = text, 0
	s.looks += int64(len(text))
	for i := 0; i < len(text); i++ {
		if s.open {
			i = s.blockByte(i)
		} else {
			i = s.textByte(i)
		}
	}
	s.pause()
}

// pause keeps what cannot be returned before more text has come.
func (s *Scanner) pause() {
	if !s.open {
		n := s.pending(len(s.text))
		s.emitText(n - s.holdBack())
	}
	s.held = append(s.held, s.text[s.start:]...)
	s.text, s.start = "", 0
}

// textByte looks at byte i outside a block, or at the next < if that is the
// next one that matters. It returns the index of the last byte looked at.
func (s *Scanner) textByte(i int) int {
	if s.tag.state == tagIdle && !s.opts.SkipFenced {
		n := strings.IndexByte(s.text[i:], '<')
		if n < 0 {
			return len(s.text) - 1
		}
		i += n
	}
	b := s.text[i]
	if s.opts.SkipFenced {
		s.fence.Step(b)
	}
	event := s.tag.step(b, false)
	if b == '<' && s.fence.Inside() {
		s.tag = tagMatcher{}
	}
	s.begin(event, i)
	return i
}

// begin acts on a tag outside a block that ends with byte i.
func (s *Scanner) begin(event tagEvent, i int) {
	if event != tagOpened && event != tagSelfClosed {
		return
	}
	s.emitText(s.pending(i+1) - s.tag.n)
	s.emit(Segment{Kind: SegmentStarted, Offset: s.at})
	s.open = true
	s.tag, s.args, s.mark = tagMatcher{}, jsontext.Lexer{}, marker{}
	switch {
	case event == tagSelfClosed:
		s.abort(AbortMalformed, errSelfClosed)
	case s.pending(i+1) > s.opts.MaxBlock:
		s.abort(AbortTooLarge, nil)
	}
}

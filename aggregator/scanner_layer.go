package aggregator

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/aggregator/usetool"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The errors of malformed blocks. The parser of each textual form has errors of its own, too.
var (
	errBroken     = errors.New("aggregator: the block breaks off")
	errName       = errors.New("aggregator: the name of the tool is empty or too long")
	errSelfClosed = errors.New("aggregator: the <use_tool/> tag holds no call")
)

// blockForm is a textual form of calls. Without a Pattern, it is <use_tool>.
type blockForm struct {
	NamedPattern
	prefix string // the beginning of every opener
}

// match returns the size of the opener at the beginning of text. If there is none, size is 0, and more
// reports whether text may become an opener.
func (f *blockForm) match(text []byte) (size int, more bool) {
	n := min(len(text), len(f.prefix))
	switch {
	case string(text[:n]) != f.prefix[:n]:
		return 0, false
	case n < len(f.prefix):
		return 0, true
	case f.Pattern == nil:
		return usetool.Opener(text)
	}
	return n, false
}

type blockReader interface {
	// read reads block[from:]; earlier calls have read block[:from]. The block begins at block[0].
	read(block []byte, from int) readResult
	// finish returns the result for a block without further bytes: BlockOpen if nothing has ended it.
	finish() readResult
}

// blockNested is the state of a block that contains the opener of another block.
const blockNested = BlockBroken + 1

// readResult is the result of a blockReader.
type readResult struct {
	state     BlockState
	bytesRead int // bytes of the block that were read
	// offset is where the block ends, if state is BlockComplete or blockNested. In the other
	// states, it is the first offset where another opener may have begun, or 0 if none has begun.
	offset int
}

// layer separates blocks of some forms from a text. It reads most bytes once, those of a broken
// JSON value twice (see useToolReader), and an opener again if it was cut by the end of a piece.
//
// Bytes fed and not returned are pending: window[pendingStart:]. Outside a block, no opener begins
// in window[pendingStart:pos]. A block begins at window[pendingStart] and is read up to pos.
type layer struct {
	forms []blockForm
	opts  *ScannerOptions

	held         []byte // the pending bytes between two pieces
	window       []byte // held and piece, joined
	piece        string // the last piece that was fed; the end of window
	pendingStart int
	pos          int
	offset       int64 // of window[pendingStart] in the whole text

	form    *blockForm    // of the open block
	reader  blockReader   // nil: no block is open
	useTool useToolReader // memory for reader, in a <use_tool> block
	fence   codeFence     // the Markdown state at window[pos] or, if a block is open, at the beginning of that block

	out      []usetool.Segment
	examined int64 // bytes examined, for the tests of linear cost
}

// feed reads the next piece, appends to out the segments that are already certain, and returns out.
func (l *layer) feed(text string, out []usetool.Segment) []usetool.Segment {
	if l.skip(text) {
		return append(out, usetool.Segment{Kind: usetool.SegmentText, Text: text, Offset: l.offset - int64(len(text))})
	}
	l.window = wirejson.View(text)
	if len(l.held) > 0 {
		l.held = append(l.held, text...)
		l.window = l.held
	}
	l.out, l.piece = out, text
	l.scan()
	if l.reader == nil {
		l.emitText(min(l.pos, len(l.window)-wirejson.PartialRune(l.window)))
	}
	if l.pendingStart > 0 || len(l.held) == 0 { // otherwise, held already has all pending bytes
		l.held = append(l.held[:0], l.window[l.pendingStart:]...)
	}
	l.pos, l.pendingStart, l.window, l.piece = l.pos-l.pendingStart, 0, nil, ""
	out, l.out = l.out, nil
	return out
}

// skip is the fast path for nearly all pieces. If nothing is held, and the piece has not even the first byte of
// the layer's only form of opener and ends with a whole character, skip passes over the piece as plain text. It
// reports whether it did.
func (l *layer) skip(text string) bool {
	if len(l.held) > 0 || len(l.forms) != 1 || text == "" || strings.IndexByte(text, l.forms[0].prefix[0]) >= 0 ||
		text[len(text)-1] >= utf8.RuneSelf && wirejson.PartialRune(wirejson.View(text)) > 0 {
		return false
	}
	l.examined += int64(len(text))
	l.offset += int64(len(text))
	l.moveFence(wirejson.View(text))
	return true
}

// finish appends all pending bytes to out, and returns out. An open block becomes text, after a
// SegmentAborted with the given reason. fence is the Markdown state at the beginning of the next text.
func (l *layer) finish(reason usetool.AbortReason, fence codeFence, out []usetool.Segment) []usetool.Segment {
	l.out, l.window = out, l.held
	for l.reader != nil {
		if !l.endBlock(l.reader.finish()) {
			l.abortBlock(reason, nil, len(l.window)-l.pendingStart)
		}
		l.scan()
	}
	l.emitText(len(l.window))
	l.held, l.window, l.pendingStart, l.pos, l.fence = l.held[:0], nil, 0, 0, fence
	out, l.out = l.out, nil
	return out
}

func (l *layer) scan() {
	for l.pos < len(l.window) {
		if l.reader != nil {
			l.readBlock()
		} else if !l.findOpener() {
			return
		}
	}
}

// findOpener finds the complete opener that ends first (of several that end there, the longest), and begins
// its block. Without one, it returns false, and pos is where an opener may have begun, or the end.
func (l *layer) findOpener() bool {
	var found *blockForm
	start, end, partial := 0, len(l.window)+1, len(l.window)
	fence := l.fence
	for i := l.pos; i < len(l.window) && i < end; i++ {
		if l.opts.SkipFenced {
			if fence.step(l.window[i]); fence.inside() {
				continue
			}
		} else if len(l.forms) == 1 {
			n := bytes.IndexByte(l.window[i:], l.forms[0].prefix[0])
			if n < 0 {
				break
			}
			i += n
		}
		for f := range l.forms {
			if l.forms[f].prefix[0] != l.window[i] {
				continue
			}
			size, more := l.forms[f].match(l.window[i:])
			if size > 0 && i+size < end {
				found, start, end = &l.forms[f], i, i+size
			}
			if more {
				partial = min(partial, i)
			}
		}
	}
	if found != nil {
		l.beginBlock(found, start, end)
		return true
	}
	l.examined += int64(partial - l.pos)
	if partial < len(l.window) {
		l.moveTo(partial) // the bytes from there on are read again, so the fence must not pass them
	} else {
		l.pos, l.fence = partial, fence
	}
	return false
}

func (l *layer) moveTo(pos int) {
	l.moveFence(l.window[l.pos:pos])
	l.pos = pos
}

func (l *layer) moveFence(text []byte) {
	if l.opts.SkipFenced {
		for _, b := range text {
			l.fence.step(b)
		}
	}
}

// beginBlock begins a block of the form f, whose opener is window[start:end]. The text before is emitted.
func (l *layer) beginBlock(f *blockForm, start, end int) {
	l.examined += int64(end - l.pos)
	l.emitText(start)
	l.moveTo(start)
	l.form, l.pos = f, end
	l.emitNotice(usetool.Segment{Kind: usetool.SegmentStarted})
	switch {
	case f.Pattern == nil && isSelfClosed(l.window[start:end]):
		l.abortBlock(usetool.AbortMalformed, errSelfClosed, end-start)
	case end-start > l.opts.MaxBlock:
		l.abortBlock(usetool.AbortTooLarge, nil, end-start)
	case f.Pattern == nil:
		l.useTool = useToolReader{}
		l.reader = &l.useTool
	default:
		l.reader = patternReader{f.Pattern.Begin()}
	}
}

// readBlock reads the open block on, up to its end, the end of the window or MaxBlock bytes.
func (l *layer) readBlock() {
	block := l.window[l.pendingStart:min(len(l.window), l.pendingStart+l.opts.MaxBlock)]
	from := l.pos - l.pendingStart
	e := l.reader.read(block, from)
	l.examined += int64(e.bytesRead - from)
	l.pos = l.pendingStart + e.bytesRead
	switch {
	case l.endBlock(e):
	case e.state == BlockBroken:
		l.abortBlock(usetool.AbortMalformed, errBroken, l.openerAtEnd(e.offset, e.bytesRead-1))
	case l.pos < len(l.window): // MaxBlock bytes were read, and the block goes on
		if e := l.reader.finish(); !l.endBlock(e) {
			l.abortBlock(usetool.AbortTooLarge, nil, l.openerAtEnd(e.offset, len(block)))
		}
	}
}

// endBlock ends the open block if it is complete, or if another block begins in it; else it returns false.
func (l *layer) endBlock(e readResult) bool {
	switch e.state {
	case BlockComplete:
		l.completeBlock(e.offset)
	case blockNested:
		l.abortBlock(usetool.AbortNested, nil, e.offset)
	default:
		return false
	}
	return true
}

// openerAtEnd returns where an opener may have begun at the end of a block that is given up after size
// bytes, or size if none has begun. It searches from minOffset on, and not at all if minOffset is 0.
func (l *layer) openerAtEnd(minOffset, size int) int {
	block := l.window[l.pendingStart : l.pendingStart+size]
	for k := max(minOffset, size-usetool.MaxOpener); minOffset > 0 && k < size; k++ {
		for f := range l.forms {
			if _, more := l.forms[f].match(block[k:]); more {
				return k
			}
		}
	}
	return size
}

// completeBlock ends the open block after size bytes: as a block if it is a call, otherwise as text.
func (l *layer) completeBlock(size int) {
	s := usetool.Segment{Pattern: l.form.Name, Offset: l.offset}
	l.leaveBlock(size)
	text, parse := l.takePending(size), usetool.Parse
	if l.form.Pattern != nil {
		parse = l.form.Pattern.Parse
	}
	name, arguments, err := parse(text)
	if err == nil && (name == "" || len(name) > maxNameBytes) {
		err = errName
	}
	switch {
	case err != nil:
		s.Kind, s.Reason, s.Err = usetool.SegmentAborted, usetool.AbortMalformed, err
	case l.opts.Accept != nil && !l.opts.Accept(name):
		s.Kind, s.Name = usetool.SegmentUndeclared, name
	default:
		l.fence = fenceAfterText() // the rest of the line, after the block, is no fence
		s.Kind, s.Text, s.Name, s.Arguments = usetool.SegmentBlock, text, name, arguments
		l.out = append(l.out, s)
		return
	}
	s.Block = text
	l.out = append(l.out, s, usetool.Segment{Kind: usetool.SegmentText, Text: text, Offset: s.Offset})
}

// abortBlock makes the open block text. The search for openers goes on after its first size bytes.
func (l *layer) abortBlock(reason usetool.AbortReason, err error, size int) {
	block := string(l.window[l.pendingStart : l.pendingStart+size])
	l.emitNotice(usetool.Segment{Kind: usetool.SegmentAborted, Reason: reason, Err: err, Block: block})
	l.leaveBlock(size)
}

func (l *layer) leaveBlock(size int) {
	l.reader, l.pos = nil, l.pendingStart
	l.moveTo(l.pendingStart + size)
}

func (l *layer) emitNotice(s usetool.Segment) {
	s.Pattern, s.Offset = l.form.Name, l.offset
	l.out = append(l.out, s)
}

// emitText emits the pending bytes before end as text. Held bytes become a segment of their own, so that
// the bytes of the piece need no copy. Only if a character is cut between the two, all are one segment.
func (l *layer) emitText(end int) {
	for l.pendingStart < end {
		n := end
		if held := len(l.window) - len(l.piece); l.pendingStart < held && held < end && utf8.RuneStart(l.window[held]) {
			n = held
		}
		offset := l.offset
		l.out = append(l.out, usetool.Segment{Kind: usetool.SegmentText, Text: l.takePending(n - l.pendingStart), Offset: offset})
	}
}

// takePending removes the first size pending bytes and returns them. It copies only text that begins in held bytes.
func (l *layer) takePending(size int) string {
	start := l.pendingStart
	l.pendingStart += size
	l.offset += int64(size)
	if held := len(l.window) - len(l.piece); start >= held {
		return l.piece[start-held : l.pendingStart-held]
	}
	return string(l.window[start:l.pendingStart])
}

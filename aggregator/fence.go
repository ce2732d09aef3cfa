package aggregator

// lineState says whether the line read so far is a fence, may become a fence, or cannot be one.
type lineState uint8

const (
	lineStart lineState = iota // nothing, or up to three spaces
	lineRun                    // the same, followed by marks: only ` or only ~
	lineInfo                   // an opening fence, and some text after its marks
	lineTail                   // a closing fence, and white space
	lineRest                   // anything else: no fence
)

const (
	minFence  = 3 // marks of an opening fence
	maxIndent = 3 // spaces before a fence
)

// codeFence finds out whether a place in Markdown is inside a fenced code block. The zero
// value is at the beginning of a text.
//
// A fence opens at the start of a line with three or more ` or ~, after at most
// three spaces. If the marks are `, the rest of the line must not have another `.
// The fence closes with a line of at least as many of the same mark, which may
// have white space around them, but nothing else. Fences within quotes and lists
// are not looked for.
type codeFence struct {
	line   lineState
	indent int  // spaces, in lineStart
	mark   byte // of this line's run
	run    int  // marks in this line's run

	open byte // the mark of the open fence, 0: none is open
	size int  // marks of the open fence
}

// afterText returns a codeFence in the middle of a line that is no fence.
func afterText() codeFence { return codeFence{line: lineRest} }

// inside reports whether the byte that step has read last is in a fenced code block, or is after the
// marks on the line that opens a block.
func (t *codeFence) inside() bool { return t.open != 0 || t.line == lineInfo }

// step looks at the next byte.
func (t *codeFence) step(b byte) {
	if b == '\n' || b == '\r' {
		t.endLine()
		return
	}
	switch t.line {
	case lineStart:
		t.begin(b)
	case lineRun:
		t.goOn(b)
	case lineInfo:
		if b == '`' && t.mark == '`' {
			t.line = lineRest
		}
	case lineTail:
		if b != ' ' && b != '\t' {
			t.line = lineRest
		}
	}
}

// begin looks at the next byte of a line that so far has only spaces.
func (t *codeFence) begin(b byte) {
	switch {
	case b == ' ' && t.indent < maxIndent:
		t.indent++
	case (b == '`' || b == '~') && (t.open == 0 || t.open == b):
		t.line, t.mark, t.run = lineRun, b, 1
	default:
		t.line = lineRest
	}
}

// goOn looks at the next byte of a line that so far has only spaces and then marks.
func (t *codeFence) goOn(b byte) {
	switch {
	case b == t.mark:
		t.run++
	case t.open == 0 && t.run >= minFence:
		t.line = lineInfo
	case t.open != 0 && t.run >= t.size && (b == ' ' || b == '\t'):
		t.line = lineTail
	default:
		t.line = lineRest
	}
}

// endLine opens or closes a fence if the line is a fence. For a CR and an LF, it is called twice: the
// second call is for an empty line, which is no fence.
func (t *codeFence) endLine() {
	switch {
	case t.open == 0 && (t.line == lineInfo || t.line == lineRun && t.run >= minFence):
		t.open, t.size = t.mark, t.run
	case t.open != 0 && (t.line == lineTail || t.line == lineRun && t.run >= t.size):
		t.open, t.size = 0, 0
	}
	t.line, t.indent = lineStart, 0
}

package aggregator

// lineState says whether the line read so far is a fence, may become a fence, or cannot be one.
type lineState uint8

const (
	lineStart   lineState = iota // nothing, or up to three spaces
	lineMarks                    // up to three spaces, and then marks: only ` or only ~
	lineOpening                  // an opening fence, and some text after its marks
	lineClosing                  // a closing fence, and white space
	lineOther                    // anything else: no fence
)

const (
	minFence  = 3 // marks of an opening fence
	maxIndent = 3 // spaces before a fence
)

// codeFence finds out which bytes of a Markdown text are in fenced code. The zero value begins a text.
//
// A fence opens at the start of a line, after at most three spaces, with three or more ` or ~; after `, the
// line must have no other `. It is closed by a line with at least as many of the same mark, at most three
// spaces before them and only white space after them. Fences in quotes and lists are ignored.
type codeFence struct {
	line   lineState
	indent int  // number of spaces read so far, in lineStart
	mark   byte // the mark at the beginning of this line: ` or ~
	marks  int  // number of marks at the beginning of this line

	openMark  byte // the mark of the open fence, 0: none is open
	openMarks int  // number of marks of the open fence
}

func fenceAfterText() codeFence { return codeFence{line: lineOther} }

// inside reports whether the last byte read is in fenced code, or after the marks of an opening fence.
func (t *codeFence) inside() bool { return t.openMark != 0 || t.line == lineOpening }

func (t *codeFence) step(b byte) {
	if b == '\n' || b == '\r' {
		t.endLine()
		return
	}
	switch t.line {
	case lineStart:
		t.stepStart(b)
	case lineMarks:
		t.stepMarks(b)
	case lineOpening:
		if b == '`' && t.mark == '`' {
			t.line = lineOther
		}
	case lineClosing:
		if b != ' ' && b != '\t' {
			t.line = lineOther
		}
	}
}

func (t *codeFence) stepStart(b byte) {
	switch {
	case b == ' ' && t.indent < maxIndent:
		t.indent++
	case (b == '`' || b == '~') && (t.openMark == 0 || t.openMark == b):
		t.line, t.mark, t.marks = lineMarks, b, 1
	default:
		t.line = lineOther
	}
}

func (t *codeFence) stepMarks(b byte) {
	switch {
	case b == t.mark:
		t.marks++
	case t.openMark == 0 && t.marks >= minFence:
		t.line = lineOpening
	case t.openMark != 0 && t.marks >= t.openMarks && (b == ' ' || b == '\t'):
		t.line = lineClosing
	default:
		t.line = lineOther
	}
}

// endLine opens or closes a fence if the line is one. CR LF ends two lines, of which the second is empty.
func (t *codeFence) endLine() {
	switch {
	case t.openMark == 0 && (t.line == lineOpening || t.line == lineMarks && t.marks >= minFence):
		t.openMark, t.openMarks = t.mark, t.marks
	case t.openMark != 0 && (t.line == lineClosing || t.line == lineMarks && t.marks >= t.openMarks):
		t.openMark, t.openMarks = 0, 0
	}
	t.line, t.indent = lineStart, 0
}

package tokens

import (
	"unicode"
	"unicode/utf8"
)

const (
	// maxRun bounds the text between two boundaries, in bytes. A boundary is a place where a token
	// always ends. Longer text is split between runes, which changes the count a little. The places
	// of these splits do not depend on the pieces that Add gets. No language has words that long.
	maxRun = 512
	// maxUncounted bounds the text that is kept without being counted, in bytes. Above this bound,
	// text is counted even if the limit is far away.
	maxUncounted = 1 << 20
)

// Limit cuts texts at a total number of tokens. The texts come in pieces. The place of the cut does
// not depend on the sizes of the pieces.
//
// A token has at least one byte. So while n tokens are left, n bytes can be output without counting
// them. Near the limit, at most maxRun bytes wait for a boundary. Each byte is counted once; only
// the text at the limit is counted twice.
type Limit struct {
	max     int // the limit, in tokens
	counted int // tokens counted so far; can be more than max after Whole
	maxKept int // the most bytes of text that are kept without being counted

	text         []byte // text that is still needed; the offsets below are positions in it
	outputEnd    int    // text[:outputEnd] was output
	textEnds     []int  // the ends of the added texts
	nextRune     int    // where findBoundaries continues
	boundary     int    // the last boundary before nextRune
	lastClass    class  // class of the rune before nextRune
	countedEnd   int    // text[:countedEnd] was counted
	cutAt        int    // the output ends with text[:cutAt]; valid only if limitReached
	limitReached bool   // there is more text than the limit allows
}

// NewLimit returns a limit of this number of tokens.
func NewLimit(tokens int) *Limit { return &Limit{max: tokens, maxKept: maxUncounted} }

// Add adds a piece of a text and returns the next output. If limitReached is true, out is the last
// output, and the text is cut after it.
func (l *Limit) Add(piece string) (out string, limitReached bool) {
	if piece == "" || l.limitReached {
		return "", l.limitReached
	}
	start := len(l.text)
	l.text = append(l.text, piece...)
	l.countIf(len(l.text) > l.tokensLeft())
	end := l.cutAt
	if !l.limitReached {
		end = wholeRunesLen(l.text[:min(len(l.text), l.countedEnd+l.tokensLeft())])
	}
	return l.output(end, piece, start), l.limitReached
}

// End ends a text and returns the rest of its output. No token extends into the next text.
func (l *Limit) End() (out string, limitReached bool) {
	if l.limitReached {
		return "", true
	}
	l.endText()
	l.countIf(len(l.text) > l.tokensLeft())
	end := l.cutAt
	if !l.limitReached {
		end = len(l.text)
	}
	return l.output(end, "", len(l.text)), l.limitReached
}

// Whole counts a text that the caller outputs as a whole, even beyond the limit. Call Whole only
// between texts, not within one.
func (l *Limit) Whole(text string) {
	l.text = append(l.text, text...)
	l.outputEnd = len(l.text)
	l.endText()
	l.update(len(l.text) > l.tokensLeft())
}

// Full reports whether the limit is reached. Call Full only between texts, not within one.
func (l *Limit) Full() bool { return l.update(len(l.text) >= l.tokensLeft()) <= 0 }

// Exceeded reports whether a text added by Whole went beyond the limit. Call Exceeded only between
// texts, not within one.
func (l *Limit) Exceeded() bool { return l.update(len(l.text) > l.tokensLeft()) < 0 }

// Raise raises the limit by a number of tokens. A text that was cut stays cut.
func (l *Limit) Raise(tokens int) { l.max += tokens }

// Fits reports whether n more bytes are certainly within the limit, so that Add outputs them
// immediately. To find out, Fits may count text that was added before.
func (l *Limit) Fits(n int) bool {
	if len(l.text)+n <= l.tokensLeft() {
		return true
	}
	left := l.update(true)
	return len(l.text)+n <= left
}

// Count returns the number of tokens counted so far. Text that was added far from the limit may not
// be counted yet. When the limit is reached, all output is counted.
func (l *Limit) Count() int { return l.counted }

// Held returns the text that was added but not output yet. The result is valid until the next call
// of a method.
func (l *Limit) Held() []byte {
	if l.limitReached {
		return nil
	}
	return l.text[l.outputEnd:]
}

// update calls countIf(needed), drops the counted text, and returns the number of tokens until the
// limit.
func (l *Limit) update(needed bool) (left int) {
	l.countIf(needed)
	l.dropCounted()
	return l.tokensLeft()
}

// tokensLeft returns the number of tokens until the limit.
func (l *Limit) tokensLeft() int { return l.max - l.counted }

// endText records that the current text has ended.
func (l *Limit) endText() {
	if n := len(l.textEnds); len(l.text) > 0 && (n == 0 || l.textEnds[n-1] < len(l.text)) {
		l.textEnds = append(l.textEnds, len(l.text))
	}
}

// output returns l.text[l.outputEnd:end], and drops the counted text. piece is the part of l.text
// that begins at pieceStart. If the result lies in piece, output does not copy it.
func (l *Limit) output(end int, piece string, pieceStart int) (out string) {
	if end > l.outputEnd {
		if l.outputEnd >= pieceStart && end <= pieceStart+len(piece) {
			out = piece[l.outputEnd-pieceStart : end-pieceStart]
		} else {
			out = string(l.text[l.outputEnd:end])
		}
		l.outputEnd = end
	}
	l.dropCounted()
	return out
}

// dropCounted removes the counted text from l.text. After the limit is reached, it does nothing.
func (l *Limit) dropCounted() {
	if l.countedEnd == 0 || l.limitReached {
		return
	}
	if l.text = append(l.text[:0], l.text[l.countedEnd:]...); cap(l.text) > 2*l.maxKept {
		l.text = append([]byte(nil), l.text...)
	}
	l.outputEnd -= l.countedEnd
	l.nextRune -= l.countedEnd
	l.boundary -= l.countedEnd
	l.countedEnd = 0
}

// countIf counts the text up to the last boundary if needed is true, or if too much text is
// uncounted.
func (l *Limit) countIf(needed bool) {
	if !needed && len(l.text) <= l.maxKept {
		return
	}
	for _, end := range l.textEnds {
		l.findBoundaries(end, true)
		l.countTo(end)
		l.nextRune, l.boundary, l.lastClass = end, end, classNone
	}
	l.textEnds = l.textEnds[:0]
	l.findBoundaries(len(l.text), false)
	l.countTo(l.boundary)
	if !l.limitReached && l.countedEnd < len(l.text) && l.tokensLeft() <= 0 {
		l.limitReached, l.cutAt = true, l.countedEnd
	}
}

// findBoundaries finds the boundaries in l.text[:end]. It also splits text that has no boundary for
// maxRun bytes. If ended is false, the last rune may be incomplete.
func (l *Limit) findBoundaries(end int, ended bool) {
	for l.nextRune < end {
		r, size := utf8.DecodeRune(l.text[l.nextRune:end])
		if size == 1 && !ended && !utf8.FullRune(l.text[l.nextRune:end]) {
			return
		}
		c := classOf(r, size)
		switch {
		case boundaries[l.lastClass][c]:
			l.boundary = l.nextRune
		case l.nextRune+size-l.boundary > maxRun:
			l.boundary = l.nextRune
			l.countTo(l.boundary)
		}
		l.lastClass = c
		l.nextRune += size
	}
}

// countTo counts l.text[:end], and sets l.cutAt if this text exceeds the limit.
func (l *Limit) countTo(end int) {
	if l.limitReached || l.countedEnd == end {
		return
	}
	text := string(l.text[l.countedEnd:end])
	n := Count(text)
	if left := max(0, l.tokensLeft()); n > left && end > l.outputEnd {
		l.limitReached = true
		l.cutAt = l.countedEnd + prefixLen(text, left)
		n = left
	}
	l.counted += n
	l.countedEnd = end
}

// The encoding first splits a text by a pattern into words, numbers, runs of punctuation and runs
// of white space. Then it splits each of these parts into tokens. A boundary is a place where such
// a part always ends, whatever text comes before and after it. A text can be split at boundaries,
// and its pieces can be counted one by one.

// class is a class of runes that the pattern distinguishes.
type class uint8

const (
	classNone    class = iota // beginning of a text
	classOdd                  // runes without boundaries around them
	classLetter               // \p{L}
	classMark                 // \p{M}
	classNumber               // \p{N}
	classQuote                // ', which can be inside of a contraction, as in it's
	classSlash                // /, which can be a part of punctuation with line breaks
	classPunct                // other punctuation and symbols
	classSpace                // blank or tab
	classNewline              // CR or LF
	classCount
)

// boundaries[a][b] reports whether there is always a boundary between a rune of class a and a
// following rune of class b: no match of the pattern contains the two runes in this order, and the
// match that ends with the first rune does not depend on the text after it.
var boundaries = [classCount][classCount]bool{
	classLetter:  {classNumber: true, classSlash: true, classPunct: true, classSpace: true, classNewline: true},
	classMark:    {classNumber: true, classSpace: true},
	classNumber:  {classLetter: true, classMark: true, classQuote: true, classSlash: true, classPunct: true, classSpace: true, classNewline: true},
	classQuote:   {classNumber: true, classSpace: true},
	classSlash:   {classNumber: true, classSpace: true},
	classPunct:   {classNumber: true, classSpace: true},
	classNewline: {classLetter: true, classMark: true, classNumber: true, classQuote: true, classPunct: true},
}

// classOf returns the class of a rune. r and size are the results of utf8.DecodeRune.
func classOf(r rune, size int) class {
	switch {
	case r == ' ' || r == '\t':
		return classSpace
	case r == '\n' || r == '\r':
		return classNewline
	case r == '\'':
		return classQuote
	case r == '/':
		return classSlash
	case r == utf8.RuneError && size == 1:
		return classOdd
	case unicode.IsLetter(r):
		return classLetter
	case unicode.IsNumber(r):
		return classNumber
	case unicode.IsMark(r):
		return classMark
	case unicode.IsPunct(r), unicode.IsSymbol(r):
		return classPunct
	}
	return classOdd
}

package tokens

import (
	"unicode"
	"unicode/utf8"
)

// The encoding first parts a text by a pattern into words, numbers, runs of
// punctuation and of white space, and then each part into tokens. Where a part
// surely ends, whatever precedes and follows, the text can be parted before,
// and counted piece by piece.

// class is what the pattern can tell of a rune.
type class uint8

const (
	classNone    class = iota // no rune: the beginning of a text
	classOdd                  // nothing is sure about it
	classLetter               // \p{L}
	classMark                 // \p{M}
	classNumber               // \p{N}
	classQuote                // ', which joins what it contracts: it's
	classSlash                // /, which may follow the line breaks after punctuation
	classPunct                // all other punctuation and symbols
	classSpace                // a blank or a tab
	classNewline              // a carriage return or a line feed
	classes
)

// boundaries says after which class, and before which, a part surely ends: the
// two are never neighbours within a match of the pattern, and the match before
// does not depend on the class after.
var boundaries = [classes][classes]bool{
	classLetter:  {classNumber: true, classSlash: true, classPunct: true, classSpace: true, classNewline: true},
	classMark:    {classNumber: true, classSpace: true},
	classNumber:  {classLetter: true, classMark: true, classQuote: true, classSlash: true, classPunct: true, classSpace: true, classNewline: true},
	classQuote:   {classNumber: true, classSpace: true},
	classSlash:   {classNumber: true, classSpace: true},
	classPunct:   {classNumber: true, classSpace: true},
	classNewline: {classLetter: true, classMark: true, classNumber: true, classQuote: true, classPunct: true},
}

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

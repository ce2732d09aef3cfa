package tokens

import (
	"unicode"
	"unicode/utf8"
)

// The encoding first splits a text by a pattern into words, numbers, runs of
// punctuation and runs of white space, and then each of these into tokens. A
// boundary is a place where such a part ends whatever precedes and follows it. A
// text can be split there and its pieces counted one by one.

// class is a class of runes that the pattern distinguishes.
type class uint8

const (
	classNone    class = iota // beginning of a text
	classOdd                  // runes without boundaries around them
	classLetter               // \p{L}
	classMark                 // \p{M}
	classNumber               // \p{N}
	classQuote                // ', which is inside of contractions: it's
	classSlash                // /, which is part of punctuation with line breaks
	classPunct                // other punctuation and symbols
	classSpace                // blank or tab
	classNewline              // CR or LF
	classes
)

// boundaries[a][b] reports whether there is always a boundary between runes of the
// classes a and b: no match of the pattern has both in this order, and the match
// before does not depend on what follows.
var boundaries = [classes][classes]bool{
	classLetter:  {classNumber: true, classSlash: true, classPunct: true, classSpace: true, classNewline: true},
	classMark:    {classNumber: true, classSpace: true},
	classNumber:  {classLetter: true, classMark: true, classQuote: true, classSlash: true, classPunct: true, classSpace: true, classNewline: true},
	classQuote:   {classNumber: true, classSpace: true},
	classSlash:   {classNumber: true, classSpace: true},
	classPunct:   {classNumber: true, classSpace: true},
	classNewline: {classLetter: true, classMark: true, classNumber: true, classQuote: true, classPunct: true},
}

// classOf returns the class of a rune and its size, as from utf8.DecodeRune.
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

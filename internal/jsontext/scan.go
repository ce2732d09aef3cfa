package jsontext

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text is a valid JSON text.
type text interface{ string | []byte }

// spaceEnd returns the offset after the white space at start.
func spaceEnd[T text](s T, start int) int {
	for start < len(s) && isSpace(s[start]) {
		start++
	}
	return start
}

// valueEnd returns the offset after the value at start.
func valueEnd[T text](s T, start int) int {
	depth := 0
	for i := start; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = stringEnd(s, i) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a number or a literal, closed by what holds it
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

// stringEnd returns the offset after the string whose opening quote is at start. It
// jumps from quote to quote. A quote that follows an odd number of backslashes is part
// of the string.
func stringEnd[T text](s T, start int) int {
	for from := start + 1; ; {
		n := indexByte(s[from:], '"')
		if n < 0 {
			return len(s)
		}
		end := from + n
		slashes := 0
		for end-1-slashes >= from && s[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		from = end + 1
	}
}

// indexByte returns the offset of b in s, or -1.
func indexByte[T text](s T, b byte) int {
	switch s := any(s).(type) {
	case string:
		return strings.IndexByte(s, b)
	case []byte:
		return bytes.IndexByte(s, b)
	}
	return -1
}

// unescape decodes the escape at the start of s and returns its length. A surrogate
// without its partner becomes U+FFFD, as in encoding/json.
func unescape[T text](s T) (char rune, size int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		char, _ = codeUnit(s)
		if !utf16.IsSurrogate(char) {
			return char, 6
		}
		if low, ok := codeUnit(s[6:]); ok {
			if joined := utf16.DecodeRune(char, low); joined != utf8.RuneError {
				return joined, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(s[1]), 2 // a quote, a backslash or a slash
}

// codeUnit reads the code unit of an escape \uXXXX at the start of s.
func codeUnit[T text](s T) (unit rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for i := 2; i < 6; i++ {
		switch d := s[i]; {
		case isDigit(d):
			unit = unit<<4 | rune(d-'0')
		case 'a' <= d && d <= 'f':
			unit = unit<<4 | rune(d-'a'+10)
		case 'A' <= d && d <= 'F':
			unit = unit<<4 | rune(d-'A'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }
func isDigit(b byte) bool { return '0' <= b && b <= '9' }

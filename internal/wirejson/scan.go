package wirejson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

type text interface{ string | []byte }

func spaceEnd(s []byte, start int) int {
	for start < len(s) && isSpace(s[start]) {
		start++
	}
	return start
}

// valueEnd returns the offset after the value that begins at start. s must be valid JSON.
func valueEnd(s []byte, start int) int {
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
				return i // the end of a number or a literal, at the bracket of the enclosing value
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

// stringEnd returns the offset after the string whose opening quote is at start. It jumps from quote to
// quote; a quote after an odd number of backslashes is part of the string.
func stringEnd(s []byte, start int) int {
	for from := start + 1; ; {
		n := bytes.IndexByte(s[from:], '"')
		if n < 0 {
			return len(s)
		}
		end := from + n
		if !isEscaped(s[from:], n) {
			return end + 1
		}
		from = end + 1
	}
}

// decodeEscape decodes the valid escape at the start of s, and returns the character and the length
// of the escape. A surrogate without its partner becomes U+FFFD, as in encoding/json.
func decodeEscape[T text](s T) (char rune, size int) {
	if s[1] != 'u' {
		return rune(escapes[s[1]]), 2
	}
	if char, _ = codeUnit(s); !utf16.IsSurrogate(char) {
		return char, 6
	}
	low, _ := codeUnit(s[6:])
	if joined := utf16.DecodeRune(char, low); joined != utf8.RuneError {
		return joined, 12
	}
	return utf8.RuneError, 6
}

// escapes maps the second character of an escape, such as the n of \n, to the escaped one.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// codeUnit reads the code unit of an escape \uXXXX at the start of s, if there is one.
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

// PlainEnd skips printable ASCII characters that need no escape in a JSON string, and returns the
// offset of the first other byte. It begins at start, and reads eight bytes at a time.
func PlainEnd(s []byte, start int) int {
	const everyByte, topBits = 0x0101010101010101, 0x8080808080808080
	i := max(start, 0) // start is not negative; max shows that to the compiler, which then omits bounds checks below
	for ; i <= len(s)-8; i += 8 {
		word := binary.LittleEndian.Uint64(s[i : i+8])
		quote, slash := word^everyByte*'"', word^everyByte*'\\'
		// The lowest set bit belongs to the first byte that is not plain. Higher bits may be wrong: that
		// byte may change the results of the bytes after it, by a carry or a borrow.
		special := word | (word + everyByte) | (word - everyByte*' ') | (quote - everyByte) | (slash - everyByte)
		if special &= topBits; special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// PartialRune returns how many bytes at the end of a text are an incomplete UTF-8 sequence.
func PartialRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// View returns the bytes of a text without copying it. They must not be changed.
func View[T text](s T) []byte {
	switch s := any(s).(type) {
	case string:
		return unsafe.Slice(unsafe.StringData(s), len(s))
	case []byte:
		return s
	}
	return nil
}

// Text returns bytes as a string that shares their memory.
func Text(s []byte) string { return unsafe.String(unsafe.SliceData(s), len(s)) }

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }
func isDigit(b byte) bool { return '0' <= b && b <= '9' }

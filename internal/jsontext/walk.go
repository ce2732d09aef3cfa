// Package jsontext reads JSON by walking its text instead of decoding it into Go
// values: a member then costs no allocation, and a value keeps its own spelling.
// The walk is only ever started on text that is known to be valid, so it checks
// nothing again.
package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Valid copies a text, without the white space around it, if it is JSON.
func Valid(data []byte) (text string, ok bool) {
	if !json.Valid(data) {
		return "", false
	}
	return string(bytes.TrimSpace(data)), true
}

// String is the inside of a JSON string, decoded only when it is used.
type String struct {
	raw     string
	escaped bool // raw holds backslash escapes
}

// Plain wraps a text that is no JSON and has no escapes.
func Plain(s string) String { return String{raw: s} }

// Size is the number of bytes that the text takes as it is written.
func (t String) Size() int { return len(t.raw) }

// Raw is the text as it is written, escapes and all.
func (t String) Raw() string { return t.raw }

// String decodes the text. Without escapes it is a view of the JSON.
func (t String) String() string {
	if !t.escaped {
		return t.raw
	}
	var out strings.Builder
	out.Grow(len(t.raw))
	t.AppendTo(&out, len(t.raw))
	return out.String()
}

// AppendTo decodes straight into out, at most budget bytes of it, and reports
// whether all of it had room.
func (t String) AppendTo(out *strings.Builder, budget int) (whole bool) {
	rest := t.raw
	for {
		plain := rest
		at := -1
		if t.escaped {
			if at = strings.IndexByte(rest, '\\'); at >= 0 {
				plain = rest[:at]
			}
		}
		if len(plain) > budget {
			out.WriteString(plain[:budget])
			return false
		}
		out.WriteString(plain)
		budget -= len(plain)
		if at < 0 {
			return true
		}
		char, size := unescape(rest[at:])
		var buf [utf8.UTFMax]byte
		n := utf8.EncodeRune(buf[:], char)
		if n > budget {
			out.Write(buf[:budget])
			return false
		}
		out.Write(buf[:n])
		budget -= n
		rest = rest[at+size:]
	}
}

// unescape decodes the escape with which s begins and returns its length. A
// surrogate without its partner becomes U+FFFD, as in encoding/json.
func unescape(s string) (char rune, size int) {
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
		char = hex4(s[2:6])
		if !utf16.IsSurrogate(char) {
			return char, 6
		}
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if joined := utf16.DecodeRune(char, hex4(s[8:12])); joined != utf8.RuneError {
				return joined, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(s[1]), 2 // a quote, a backslash or a slash
}

// hex4 reads the four digits of \uXXXX.
func hex4(s string) (char rune) {
	for i := range len(s) {
		digit := rune(s[i])
		switch {
		case digit <= '9':
			digit -= '0'
		case digit <= 'F':
			digit -= 'A' - 10
		default:
			digit -= 'a' - 10
		}
		char = char<<4 | digit
	}
	return char
}

// AsString returns the inside of a raw JSON value that is a string.
func AsString(value string) (text String, ok bool) {
	if value == "" || value[0] != '"' {
		return String{}, false
	}
	inner := value[1 : len(value)-1]
	return String{raw: inner, escaped: strings.IndexByte(inner, '\\') >= 0}, true
}

// IsObject reports whether a raw JSON value is an object.
func IsObject(value string) bool { return value != "" && value[0] == '{' }

// Walker steps through the members of an object or the elements of an array.
//
//	for w := jsontext.Walk(value); w.Next(); {
//		use(w.Key, w.Value)
//	}
//
// Of a value that is neither, and of none, it finds nothing.
type Walker struct {
	text   string
	at     int
	object bool

	Key   string // the decoded name of the member; empty in an array
	Value string // the raw value
}

// Walk starts a walk over a raw value.
func Walk(value string) Walker {
	if value == "" || value[0] != '{' && value[0] != '[' {
		return Walker{}
	}
	return Walker{text: value, at: 1, object: value[0] == '{'}
}

// Next goes to the next member or element, and reports whether there is one.
func (w *Walker) Next() bool {
	w.skip(" \t\r\n,")
	if w.at >= len(w.text)-1 {
		return false
	}
	if w.object {
		end := valueEnd(w.text, w.at)
		name, _ := AsString(w.text[w.at:end])
		w.Key = name.String()
		w.at = end
		w.skip(" \t\r\n:")
	}
	end := valueEnd(w.text, w.at)
	w.Value = w.text[w.at:end]
	w.at = end
	return true
}

func (w *Walker) skip(set string) {
	for w.at < len(w.text) && strings.IndexByte(set, w.text[w.at]) >= 0 {
		w.at++
	}
}

// valueEnd returns the offset behind the value that begins at start.
func valueEnd(text string, start int) int {
	depth := 0
	for i := start; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
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
	return len(text)
}

// stringEnd returns the offset behind the string whose quote is at start.
func stringEnd(text string, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

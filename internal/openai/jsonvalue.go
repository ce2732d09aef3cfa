package openai

import (
	"bytes"
	"iter"
	"unicode/utf16"
	"unicode/utf8"
)

// value is the text of one JSON value within a checked body, without the space
// around it. A nil value is one that is absent. The methods trust that the text
// was checked and that the caller looked at the kind.
type value []byte

// kind names the type of a JSON value the way an error message does.
type kind string

const (
	kindAbsent kind = "nothing"
	kindNull   kind = "null"
	kindBool   kind = "a boolean"
	kindNumber kind = "a number"
	kindString kind = "a string"
	kindArray  kind = "an array"
	kindObject kind = "an object"
)

func (v value) kind() kind {
	if len(v) == 0 {
		return kindAbsent
	}
	switch v[0] {
	case '{':
		return kindObject
	case '[':
		return kindArray
	case '"':
		return kindString
	case 't', 'f':
		return kindBool
	case 'n':
		return kindNull
	}
	return kindNumber
}

// given reports whether the value is there and not null.
func (v value) given() bool {
	k := v.kind()
	return k != kindAbsent && k != kindNull
}

func (v value) isTrue() bool { return v.kind() == kindBool && v[0] == 't' }

// rawText is what stands between the quotes of a string, escapes and all.
func (v value) rawText() []byte { return v[1 : len(v)-1] }

// text is the text of a string.
func (v value) text() string { return string(v.bytes()) }

// bytes is the text of a string, in the body's own bytes if it has no escapes.
func (v value) bytes() []byte {
	raw := v.rawText()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return appendUnescaped(make([]byte, 0, len(raw)), raw)
}

// is reports whether the value is the string s.
func (v value) is(s string) bool {
	return v.kind() == kindString && string(v.bytes()) == s
}

// elements are the elements of an array with their indexes.
func (v value) elements() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		pos := skipSpace(v, 1)
		for i := 0; v[pos] != ']'; i++ {
			end := skipValue(v, pos)
			if !yield(i, v[pos:end:end]) {
				return
			}
			pos = skipSpace(v, end)
			if v[pos] == ',' {
				pos = skipSpace(v, pos+1)
			}
		}
	}
}

// members are the members of an object in the order of the text, duplicates
// included: who reads them in order keeps the last one, as other parsers do. The
// names are bytes, since to look one up needs no string of its own.
func (v value) members() iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		pos := skipSpace(v, 1)
		for v[pos] != '}' {
			end := skipValue(v, pos)
			name := v[pos:end]
			pos = skipSpace(v, end) // the colon
			pos = skipSpace(v, pos+1)
			end = skipValue(v, pos)
			if !yield(name.bytes(), v[pos:end:end]) {
				return
			}
			pos = skipSpace(v, end)
			if v[pos] == ',' {
				pos = skipSpace(v, pos+1)
			}
		}
	}
}

// member is one that is looked for in an object, and where its value goes.
type member struct {
	name string
	into *value
}

// pick sets what an object has of the wanted members and skips the others.
func (v value) pick(wanted ...member) {
	for name, v := range v.members() {
		for _, w := range wanted {
			if string(name) == w.name {
				*w.into = v
				break
			}
		}
	}
}

func skipSpace(v []byte, pos int) int {
	for isSpace(v[pos]) {
		pos++
	}
	return pos
}

// skipValue returns the end of the value that starts at pos.
func skipValue(v []byte, pos int) int {
	switch v[pos] {
	case '"':
		return skipString(v, pos)
	case '{', '[':
		return skipContainer(v, pos)
	}
	for pos < len(v) && !isSpace(v[pos]) && v[pos] != ',' && v[pos] != ']' && v[pos] != '}' {
		pos++
	}
	return pos
}

func skipContainer(v []byte, pos int) int {
	for depth := 0; ; {
		switch v[pos] {
		case '"':
			pos = skipString(v, pos)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return pos + 1
			}
		}
		pos++
	}
}

// skipString jumps from quote to quote: one that follows an odd number of
// backslashes is part of the text.
func skipString(v []byte, pos int) int {
	start := pos + 1
	for {
		end := start + bytes.IndexByte(v[start:], '"')
		slashes := 0
		for end-1-slashes >= start && v[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		start = end + 1
	}
}

// appendUnescaped appends the text that raw, the inside of a JSON string,
// stands for.
func appendUnescaped(dst, raw []byte) []byte {
	for len(raw) > 0 {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		raw = raw[n:]
		if raw[1] != 'u' {
			dst = append(dst, unescapedByte(raw[1]))
			raw = raw[2:]
			continue
		}
		r, _ := unicodeEscape(raw)
		raw = raw[6:]
		if isHighSurrogate(r) {
			low, _ := unicodeEscape(raw)
			r = utf16.DecodeRune(r, low)
			raw = raw[6:]
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// unescapedByte is what the escape of one letter stands for.
func unescapedByte(letter byte) byte {
	switch letter {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return letter
}

// replaceLoneSurrogates returns a copy of a checked text in which the escapes at
// the given offsets stand for U+FFFD, which is just as long. Clients that cut a
// text between the halves of an emoji send such escapes.
func replaceLoneSurrogates(data []byte, lone []int) []byte {
	data = bytes.Clone(data)
	for _, offset := range lone {
		copy(data[offset:], `\ufffd`)
	}
	return data
}

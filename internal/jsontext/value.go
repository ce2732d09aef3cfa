package jsontext

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"unicode/utf8"
)

// Value is the text of one JSON value within a checked body, without the space
// around it. A nil value is one that is absent. The methods trust that the text
// was checked and that the caller looked at the kind.
type Value []byte

// Parse checks a JSON text and returns its value. What is no JSON, no UTF-8 or
// nested too deeply is an error. In a copy of the text, escapes that are one half of
// a surrogate pair stand for U+FFFD: clients that cut a text between the halves of
// an emoji send such ones.
func Parse(text []byte) (Value, *SyntaxError) {
	lone, err := check(text)
	if err != nil {
		return nil, err
	}
	if lone != nil {
		text = bytes.Clone(text)
	}
	for _, offset := range lone {
		copy(text[offset:], `\ufffd`) // which is just as long
	}
	return Value(bytes.Trim(text, " \t\r\n")), nil
}

// Kind names the type of a JSON value the way an error message does.
type Kind string

// The kinds of values. A value that is absent has one, too.
const (
	KindAbsent Kind = "nothing"
	KindNull   Kind = "null"
	KindBool   Kind = "a boolean"
	KindNumber Kind = "a number"
	KindString Kind = "a string"
	KindArray  Kind = "an array"
	KindObject Kind = "an object"
)

// Kind returns the kind of the value, by its first byte.
func (v Value) Kind() Kind {
	if len(v) == 0 {
		return KindAbsent
	}
	switch v[0] {
	case '{':
		return KindObject
	case '[':
		return KindArray
	case '"':
		return KindString
	case 't', 'f':
		return KindBool
	case 'n':
		return KindNull
	}
	return KindNumber
}

// MarshalJSON returns the value itself, or null if it is absent.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	return v, nil
}

// Given reports whether the value is there and not null.
func (v Value) Given() bool {
	k := v.Kind()
	return k != KindAbsent && k != KindNull
}

// IsTrue reports whether the value is true.
func (v Value) IsTrue() bool { return v.Kind() == KindBool && v[0] == 't' }

// RawText is what stands between the quotes of a string, escapes and all.
func (v Value) RawText() []byte { return v[1 : len(v)-1] }

// Text is the text of a string.
func (v Value) Text() string { return string(v.Bytes()) }

// Bytes is the text of a string, in the body's own bytes if it has no escapes.
func (v Value) Bytes() []byte {
	raw := v.RawText()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return appendUnescaped(make([]byte, 0, len(raw)), raw)
}

// Is reports whether the value is the string s.
func (v Value) Is(s string) bool {
	return v.Kind() == KindString && string(v.Bytes()) == s
}

// IsEmptyArray reports whether the value is [].
func (v Value) IsEmptyArray() bool {
	return v.Kind() == KindArray && v[spaceEnd([]byte(v), 1)] == ']'
}

// Equals reports whether the value is the one that text stands for. Some clients
// write 1 as 1.0.
func (v Value) Equals(text string) bool {
	if string(v) == text || v.Kind() != KindNumber || text == "" {
		return string(v) == text
	}
	a, errA := strconv.ParseFloat(string(v), 64)
	b, errB := strconv.ParseFloat(text, 64)
	return errA == nil && errB == nil && a == b
}

// Compact returns a copy of the value without the space between its tokens.
func (v Value) Compact() json.RawMessage {
	var buf bytes.Buffer
	buf.Grow(len(v))
	// A checked value is valid JSON, so that this cannot fail.
	_ = json.Compact(&buf, v)
	return buf.Bytes()
}

// Elements are the elements of an array with their indexes.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		pos := spaceEnd([]byte(v), 1)
		for i := 0; v[pos] != ']'; i++ {
			end := valueEnd([]byte(v), pos)
			if !yield(i, v[pos:end:end]) {
				return
			}
			pos = spaceEnd([]byte(v), end)
			if v[pos] == ',' {
				pos = spaceEnd([]byte(v), pos+1)
			}
		}
	}
}

// Members are the members of an object in the order of the text, duplicates
// included: who reads them in order keeps the last one, as other parsers do. The
// names are bytes, since to look one up needs no string of its own.
func (v Value) Members() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		pos := spaceEnd([]byte(v), 1)
		for v[pos] != '}' {
			end := valueEnd([]byte(v), pos)
			name := v[pos:end]
			pos = spaceEnd([]byte(v), end) // the colon
			pos = spaceEnd([]byte(v), pos+1)
			end = valueEnd([]byte(v), pos)
			if !yield(name.Bytes(), v[pos:end:end]) {
				return
			}
			pos = spaceEnd([]byte(v), end)
			if v[pos] == ',' {
				pos = spaceEnd([]byte(v), pos+1)
			}
		}
	}
}

// member is a member that is looked for in an object, and where its value goes.
type member struct {
	name string
	into *Value
}

// Into returns the member of a name, whose value goes to v.
func Into(name string, v *Value) member { return member{name, v} }

// Pick sets what an object has of the wanted members and skips the others.
func (v Value) Pick(wanted ...member) {
	for name, v := range v.Members() {
		for _, w := range wanted {
			if string(name) == w.name {
				*w.into = v
				break
			}
		}
	}
}

// appendUnescaped appends the text that raw, the inside of a JSON string,
// stands for.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		char, size := unescape(raw[n:])
		dst = utf8.AppendRune(append(dst, raw[:n]...), char)
		raw = raw[n+size:]
	}
}

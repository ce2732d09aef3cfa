// Package wirejson reads JSON by walking its text instead of decoding it into Go values. So reading
// a member allocates nothing, and a value can be passed on exactly as it was written.
//
// [Scanner] reads and checks a text in one pass, for lines of the app-server. [Value] is a view of
// checked bytes: bodies, events and tool calls. [AppendString] and [Append] write JSON.
package wirejson

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Value is a JSON value without white space around it: a part of the text that [Parse] has checked, not a
// copy. Nil: it is absent. Methods for one kind of values must not be called on another kind.
type Value []byte

// Parse returns the value of a JSON text, or an error if it is no JSON, no UTF-8 or nested too deeply. An
// escape of half a surrogate pair (some clients cut within an emoji) becomes U+FFFD, in a copy of the text.
func Parse(text []byte) (Value, *SyntaxError) { return ParsePart(text, 0) }

// ParsePart is [Parse] for a value that a client will send back in a body. outer is how many arrays and
// objects will be around the value.
func ParsePart(text []byte, outer int) (Value, *SyntaxError) {
	loneHalves, err := check(text, maxBodyDepth-outer)
	if err != nil {
		return nil, err
	}
	if loneHalves != nil {
		text = bytes.Clone(text)
	}
	for _, offset := range loneHalves {
		copy(text[offset:], `\ufffd`) // the replacement is as long as the escape
	}
	return Value(bytes.Trim(text, " \t\r\n")), nil
}

// Kind is the kind of a JSON value, as error messages call it.
type Kind string

// The kinds of values.
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
	if k := kinds[v[0]]; k != "" {
		return k
	}
	return KindNumber
}

var kinds = [256]Kind{'{': KindObject, '[': KindArray, '"': KindString, 't': KindBool, 'f': KindBool, 'n': KindNull}

// MarshalJSON returns the value itself, or null if it is absent.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	return v, nil
}

// Given reports whether the value is neither absent nor null.
func (v Value) Given() bool {
	k := v.Kind()
	return k != KindAbsent && k != KindNull
}

// OrAbsent returns the value, or an absent Value if the value is null.
func (v Value) OrAbsent() Value {
	if v.Given() {
		return v
	}
	return nil
}

// IsTrue reports whether the value is true.
func (v Value) IsTrue() bool { return v.Kind() == KindBool && v[0] == 't' }

// Holds reports whether a value is a part of v: it is in the same memory, not an equal text elsewhere.
func (v Value) Holds(part Value) bool {
	return len(v) > 0 && len(part) > 0 && offset(v, part) < uintptr(len(v))
}

// IsSame reports whether a part of v is all of v.
func (v Value) IsSame(part Value) bool { return offset(v, part) == 0 }

// offset returns how many bytes after v's first byte other begins; if before, more than any value has.
func offset(v, other Value) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(other))) - uintptr(unsafe.Pointer(unsafe.SliceData(v)))
}

// RawText returns the bytes between the quotes of a string, without decoding the escapes.
func (v Value) RawText() []byte { return v[1 : len(v)-1] }

// Text returns a copy of the text of a string.
func (v Value) Text() string {
	raw := v.RawText()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	return unescaped(raw)
}

// Bytes returns the text of a string: a part of the value if there are no escapes, else a copy.
func (v Value) Bytes() []byte {
	raw := v.RawText()
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return v.AppendText(make([]byte, 0, len(raw)))
}

// AppendText appends the text of a string.
func (v Value) AppendText(dst []byte) []byte { return appendUnescaped(dst, v.RawText()) }

// Is reports whether the value is the string s.
func (v Value) Is(s string) bool { return v.Kind() == KindString && string(v.Bytes()) == s }

// IsEmptyArray reports whether the value is [].
func (v Value) IsEmptyArray() bool { return v.Kind() == KindArray && v[spaceEnd(v, 1)] == ']' }

// Equals reports whether the value equals the value of a JSON text. Numbers are compared as
// numbers, since some clients write 1 as 1.0. All other values are compared byte by byte.
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
	// Compact cannot fail, since a checked value is valid JSON.
	_ = json.Compact(&buf, v)
	return buf.Bytes()
}

// Elements iterates over the elements of an array.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		c := NewCursor(v)
		c.Enter()
		for i := 0; c.Next() && yield(i, c.Skip()); i++ {
		}
	}
}

// Values iterates over an array's elements or the values of an object's members; other values have none.
func (v Value) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		kind := v.Kind()
		if kind != KindArray && kind != KindObject {
			return
		}
		c := NewCursor(v)
		for c.Enter(); c.Next(); {
			if kind == KindObject {
				c.Name()
			}
			if !yield(c.Skip()) {
				return
			}
		}
	}
}

// Members iterates over the members of an object in the order of the text. A name may occur twice;
// most parsers use the last one. Names are bytes, so that looking one up allocates nothing.
func (v Value) Members() iter.Seq2[[]byte, Value] { return v.MembersKnowing(nil) }

// MembersKnowing is [Value.Members] for callers that know the value of one member, such as a long value
// from [Value.Pick]. known is this value, a part of v, whose text is not read again. It may be nil.
func (v Value) MembersKnowing(known Value) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		c := Cursor{text: v, known: known}
		for c.Enter(); c.Next(); {
			if name := c.Name(); !yield(name.Bytes(), c.Skip()) {
				return
			}
		}
	}
}

// Member names a member of an object that [Value.Pick] looks for, and the variable for its value.
type Member struct {
	name  string
	value *Value
}

// Into makes [Value.Pick] set v to the value of the member name.
func Into(name string, v *Value) Member { return Member{name, v} }

// Pick sets the variables of the wanted members of an object. Variables of absent members do not change.
func (v Value) Pick(wanted ...Member) {
	var kind Value
	v.PickTyped(&kind, wanted...)
}

// PickTyped does the same as Pick, and also sets kind to the value of the member "type". kind is a
// separate parameter: if it were one of wanted, Go would allocate all the variables on the heap.
func (v Value) PickTyped(kind *Value, wanted ...Member) {
	c := NewCursor(v)
	c.PickTyped(kind, wanted...)
}

func unescaped(raw []byte) string {
	return Text(appendUnescaped(make([]byte, 0, len(raw)), raw)) // Text may share the memory, since nobody else has the new slice
}

// appendUnescaped appends the decoded text of raw, the inside of a JSON string.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		char, size := decodeEscape(raw[n:])
		dst = utf8.AppendRune(append(dst, raw[:n]...), char)
		raw = raw[n+size:]
	}
}

package wirejson

import "bytes"

// AsText returns a string's text, a copy only if there are escapes; false for other values.
func (v Value) AsText() (text string, ok bool) {
	if v.Kind() != KindString {
		return "", false
	}
	return Text(v.Bytes()), true
}

// Part returns the text of a string that may be cut out of a longer one. Half of a surrogate pair at its
// beginning or end does not become U+FFFD: Part encodes it in three bytes, as if it were a character. The
// result may share the memory of buf, and is valid until buf changes.
func (v Value) Part(buf *[]byte) string {
	raw, high := v.RawText(), rune(0)
	if bytes.IndexByte(raw, '\\') < 0 {
		return Text(raw)
	}
	dst := (*buf)[:0]
	if low, ok := codeUnit(raw); ok && low >= 0xdc00 && low < 0xe000 { // a second half
		dst, raw = appendHalf(dst, low), raw[len(`\ude00`):]
	}
	if n := len(raw) - len(`\ud83d`); n >= 0 {
		if unit, ok := codeUnit(raw[n:]); ok && unit >= 0xd800 && unit < 0xdc00 && !isEscaped(raw, n) {
			raw, high = raw[:n], unit // a first half
		}
	}
	dst = appendUnescaped(dst, raw)
	if high != 0 {
		dst = appendHalf(dst, high)
	}
	*buf = dst
	return Text(dst)
}

// isEscaped reports whether the byte at an offset is escaped by a backslash before it.
func isEscaped(raw []byte, at int) bool {
	slashes := 0
	for slashes < at && raw[at-1-slashes] == '\\' {
		slashes++
	}
	return slashes%2 == 1
}

// appendHalf appends half of a surrogate pair, encoded in three bytes.
func appendHalf(dst []byte, unit rune) []byte {
	return append(dst, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f)
}

// Cursor goes over the text of a checked value and reads each byte once, however deep it is nested:
//
//	for c.Enter(); c.Next(); {
//		name := c.Name() // in an object
//		c.Skip()         // or c.Enter(), to read the elements or members of the value
//	}
type Cursor struct {
	text  Value
	pos   int
	known Value // a value in the text that Skip need not read, since its length is known; nil: none
}

// NewCursor returns a cursor at the beginning of v.
func NewCursor(v Value) *Cursor { return &Cursor{text: v} }

// Kind is the kind of the value at the cursor.
func (c *Cursor) Kind() Kind { return c.text[c.pos:].Kind() }

// Enter goes into the array or the object at the cursor.
func (c *Cursor) Enter() { c.pos++ }

// Next goes to the next element or member's name, or past the closing bracket: then it returns false.
func (c *Cursor) Next() bool {
	for ; c.text[c.pos] == ',' || isSpace(c.text[c.pos]); c.pos++ {
	}
	if b := c.text[c.pos]; b == ']' || b == '}' {
		c.pos++
		return false
	}
	return true
}

// Name goes from the name of a member to its value, and returns the name as a JSON string.
func (c *Cursor) Name() Value {
	start := c.pos
	c.pos = stringEnd(c.text, start)
	name := c.text[start:c.pos:c.pos]
	for ; c.text[c.pos] == ':' || isSpace(c.text[c.pos]); c.pos++ {
	}
	return name
}

// Skip moves the cursor past the value at the cursor and returns the value.
func (c *Cursor) Skip() Value {
	start := c.pos
	if len(c.known) > 0 && &c.known[0] == &c.text[start] {
		c.pos += len(c.known)
	} else {
		c.pos = valueEnd(c.text, start)
	}
	return c.text[start:c.pos:c.pos]
}

// Pick moves the cursor past the value at the cursor and returns the value. If the value is an
// object, Pick also picks the wanted members, see [Value.Pick].
func (c *Cursor) Pick(wanted ...Member) Value {
	var kind Value
	return c.PickTyped(&kind, wanted...)
}

// PickTyped is Pick, and sets kind to the value of the member "type". See [Value.PickTyped].
func (c *Cursor) PickTyped(kind *Value, wanted ...Member) Value {
	if c.Kind() != KindObject {
		return c.Skip()
	}
	start := c.pos
	for c.Enter(); c.Next(); {
		name, v := c.Name().Bytes(), c.Skip()
		if string(name) == "type" {
			*kind = v
		}
		for _, w := range wanted {
			if string(name) == w.name {
				*w.value = v
				break
			}
		}
	}
	return c.text[start:c.pos:c.pos]
}

// Read calls read, which must move past the value at the cursor, and returns this value.
func (c *Cursor) Read(read func()) Value {
	start := c.pos
	read()
	return c.text[start:c.pos:c.pos]
}

package jsontext

import "iter"

// Cursor walks the text of a checked value from front to back and reads each byte
// once, however deep the value is nested. [Value.Members] and [Value.Elements] find
// the end of each value before they yield it, so that a walk by them reads a byte
// once for each level above it.
type Cursor struct {
	text Value
	pos  int // the first byte of a value, or behind the last one
}

// NewCursor returns a cursor at the beginning of v.
func NewCursor(v Value) *Cursor { return &Cursor{text: v} }

// Kind is the kind of the value at the cursor.
func (c *Cursor) Kind() Kind { return c.text[c.pos:].Kind() }

// Skip moves the cursor behind the value and returns that value.
func (c *Cursor) Skip() Value {
	start := c.pos
	c.pos = valueEnd([]byte(c.text), start)
	return c.text[start:c.pos:c.pos]
}

// Read moves the cursor behind the value by calling read, which has to walk all of
// it, and returns the value.
func (c *Cursor) Read(read func()) Value {
	start := c.pos
	read()
	return c.text[start:c.pos:c.pos]
}

// Members walks the object at the cursor and yields the name of each member while
// the cursor is at its value. A value that the loop leaves where it is gets skipped.
// A loop that ends early leaves the cursor within the object.
func (c *Cursor) Members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c.enter()
		for c.text[c.pos] != '}' {
			name := c.Skip()
			c.space() // before the colon
			c.pos++
			c.space()
			if !c.visit(func() bool { return yield(name.Bytes()) }) {
				return
			}
		}
		c.pos++
	}
}

// Elements walks the array at the cursor and yields the index of each element while
// the cursor is at it, in the way of Members.
func (c *Cursor) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		c.enter()
		for i := 0; c.text[c.pos] != ']'; i++ {
			if !c.visit(func() bool { return yield(i) }) {
				return
			}
		}
		c.pos++
	}
}

// enter goes past an opening bracket.
func (c *Cursor) enter() {
	c.pos++
	c.space()
}

// visit yields the value at the cursor and goes to what follows it.
func (c *Cursor) visit(yield func() bool) bool {
	start := c.pos
	if !yield() {
		return false
	}
	if c.pos == start {
		c.Skip()
	}
	c.space()
	if c.text[c.pos] == ',' {
		c.enter()
	}
	return true
}

func (c *Cursor) space() { c.pos = spaceEnd([]byte(c.text), c.pos) }

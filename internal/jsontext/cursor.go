package jsontext

// Cursor goes over the text of a checked value from front to back and reads each byte once,
// however deep the value is nested:
//
//	for c.Enter(); c.Next(); {
//		name := c.Name() // in an object
//		c.Skip()         // or Enter again
//	}
type Cursor struct {
	text Value
	pos  int
}

// NewCursor returns a cursor at the beginning of v.
func NewCursor(v Value) *Cursor { return &Cursor{text: v} }

// Kind is the kind of the value at the cursor.
func (c *Cursor) Kind() Kind { return c.text[c.pos:].Kind() }

// Enter goes into the array or the object at the cursor.
func (c *Cursor) Enter() { c.pos++ }

// Next goes to the next element, or to the name of the next member. After the last it goes
// behind the closing bracket and reports false.
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
	name := c.Skip()
	for ; c.text[c.pos] == ':' || isSpace(c.text[c.pos]); c.pos++ {
	}
	return name
}

// Skip goes behind the value at the cursor and returns it.
func (c *Cursor) Skip() Value {
	start := c.pos
	c.pos = valueEnd([]byte(c.text), start)
	return c.text[start:c.pos:c.pos]
}

// Read goes behind the value at the cursor by calling read, and returns it.
func (c *Cursor) Read(read func()) Value {
	start := c.pos
	read()
	return c.text[start:c.pos:c.pos]
}

// Walker iterates over the members of an object or the elements of an array.
//
//	for w := jsontext.Walk(value); w.Next(); {
//		use(w.Key, w.Value)
//	}
//
// Other values have neither.
type Walker struct {
	text   string
	cursor Cursor // in text
	object bool

	Key   string // the decoded name of the member; empty in an array
	Value string // the raw value
}

// Walk returns a Walker over a raw value.
func Walk(value string) Walker {
	if value == "" || value[0] != '{' && value[0] != '[' {
		value = "[]"
	}
	return Walker{text: value, cursor: Cursor{View(value), 1}, object: value[0] == '{'}
}

// Next moves to the next member or element, and reports whether there is one.
func (w *Walker) Next() bool {
	if !w.cursor.Next() {
		return false
	}
	if start := w.cursor.pos; w.object {
		name, _ := AsString(w.text[start:][:len(w.cursor.Name())])
		w.Key = name.String()
	}
	start := w.cursor.pos
	w.cursor.Skip()
	w.Value = w.text[start:w.cursor.pos]
	return true
}

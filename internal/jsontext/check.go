package jsontext

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// maxDepth is how deep the arrays and objects of a body may be nested. Codex reads
// messages of at most 127 levels and drops deeper ones without an answer. A tool's
// schema, the deepest part of a request, is as deep in thread/start as in the body.
const maxDepth = 127

// SyntaxError is what is wrong with a JSON text, and at which byte (from 0).
type SyntaxError struct {
	offset  int
	problem string
}

// Error returns the problem and the byte.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.problem, e.offset) }

// checker checks that a text is one JSON value by RFC 8259, in UTF-8 and not nested too
// deeply. It reads the text once. What reads the text after that can know the kind of a
// value by its first byte.
type checker struct {
	data  []byte
	pos   int
	depth int
	limit int // of depth
	// lone has the offsets of escapes that are one half of a surrogate pair. JSON
	// allows them, but no UTF-8 text can have them, and Codex rejects them.
	lone []int
}

// ValidWithin reports whether a text is one JSON value, in UTF-8 and with at most so many levels
// of arrays and objects. Checks that recurse without a bound can exhaust the stack.
func ValidWithin(depth int, text []byte) bool {
	_, err := check(text, depth)
	return err == nil
}

// Readable reports whether Codex can read a text as one JSON value.
func Readable(text []byte) bool {
	lone, err := check(text, maxDepth)
	return err == nil && len(lone) == 0
}

// check checks data and returns the offsets of lone surrogate escapes in it.
func check(data []byte, depth int) (lone []int, err *SyntaxError) {
	c := checker{data: data, limit: depth}
	c.space()
	if err := c.value(); err != nil {
		return nil, err
	}
	c.space()
	if c.pos < len(data) {
		return nil, c.fail("unexpected data after the JSON value")
	}
	return c.lone, nil
}

func (c *checker) fail(problem string) *SyntaxError { return &SyntaxError{c.pos, problem} }

// unexpected returns the error of the byte at the position, or of the end.
func (c *checker) unexpected(wanted string) *SyntaxError {
	if c.pos >= len(c.data) {
		return c.fail("unexpected end, expected " + wanted + ",")
	}
	if b := c.data[c.pos]; b < ' ' || b >= utf8.RuneSelf {
		return c.fail(fmt.Sprintf("unexpected character %#02x, expected %s,", b, wanted))
	}
	return c.fail(fmt.Sprintf("unexpected %q, expected %s,", c.data[c.pos], wanted))
}

// peek returns the byte at the position, or 0 at the end. A NUL byte in the text is an
// error wherever peek is called, just as the end is.
func (c *checker) peek() byte {
	if c.pos < len(c.data) {
		return c.data[c.pos]
	}
	return 0
}

// take moves past a byte if it is at the position, and reports whether it is.
func (c *checker) take(b byte) bool {
	found := c.peek() == b
	if found {
		c.pos++
	}
	return found
}

func (c *checker) space() { c.pos = spaceEnd(c.data, c.pos) }

func (c *checker) value() *SyntaxError {
	switch b := c.peek(); b {
	case '"':
		return c.str()
	case '{':
		return c.container('}', "a comma or a closing brace")
	case '[':
		return c.container(']', "a comma or a closing bracket")
	case 't':
		return c.literal("true")
	case 'f':
		return c.literal("false")
	case 'n':
		return c.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return c.number()
	}
	return c.unexpected("a value")
}

func (c *checker) literal(word string) *SyntaxError {
	if !bytes.HasPrefix(c.data[c.pos:], []byte(word)) {
		return c.fail("invalid literal, expected " + word + ",")
	}
	c.pos += len(word)
	return nil
}

// container checks an array or an object, from its opening bracket to its end. next is what
// may follow an element.
func (c *checker) container(end byte, next string) *SyntaxError {
	if c.depth++; c.depth > c.limit {
		return c.fail(fmt.Sprintf("nested more than %d deep", c.limit))
	}
	c.pos++
	c.space()
	for closed := c.take(end); !closed; {
		if err := c.element(end == '}'); err != nil {
			return err
		}
		c.space()
		if closed = c.take(end); !closed && !c.take(',') {
			return c.unexpected(next)
		}
		c.space()
	}
	c.depth--
	return nil
}

// element checks a value, and the name before it in a member of an object.
func (c *checker) element(member bool) *SyntaxError {
	if member {
		if c.peek() != '"' {
			return c.unexpected("a member's name in quotes")
		}
		if err := c.str(); err != nil {
			return err
		}
		if c.space(); !c.take(':') {
			return c.unexpected("a colon")
		}
		c.space()
	}
	return c.value()
}

func (c *checker) number() *SyntaxError {
	c.take('-')
	ok := c.take('0') || c.digits()
	if ok && c.take('.') {
		ok = c.digits()
	}
	if ok && (c.take('e') || c.take('E')) {
		_ = c.take('+') || c.take('-')
		ok = c.digits()
	}
	if !ok {
		return c.unexpected("a digit")
	}
	return nil
}

// digits moves past digits and reports whether there was any.
func (c *checker) digits() bool {
	start := c.pos
	for isDigit(c.peek()) {
		c.pos++
	}
	return c.pos > start
}

func (c *checker) str() *SyntaxError {
	c.pos++
	for c.pos < len(c.data) {
		if c.data[c.pos] < utf8.RuneSelf {
			if c.pos = PlainEnd(c.data, c.pos); c.pos == len(c.data) {
				break
			}
		}
		switch b := c.data[c.pos]; {
		case b == '"':
			c.pos++
			return nil
		case b == '\\':
			if err := c.escape(); err != nil {
				return err
			}
		case b < ' ':
			return c.fail(fmt.Sprintf("control character %#02x in a string", b))
		default:
			r, size := utf8.DecodeRune(c.data[c.pos:])
			if r == utf8.RuneError && size == 1 {
				return c.fail("invalid UTF-8")
			}
			c.pos += size
		}
	}
	return c.fail("unexpected end in a string")
}

// escape checks an escape sequence from its backslash.
func (c *checker) escape() *SyntaxError {
	if c.pos+1 >= len(c.data) {
		c.pos = len(c.data)
		return c.fail("unexpected end in a string")
	}
	unit, ok := codeUnit(c.data[c.pos:])
	switch b := c.data[c.pos+1]; {
	case b == 'u' && !ok:
		return c.fail("invalid \\u escape in a string")
	case b != 'u' && escapes[b] == 0:
		return c.fail("invalid escape in a string")
	}
	char, size := unescape(c.data[c.pos:])
	if char == utf8.RuneError && unit != utf8.RuneError {
		c.lone = append(c.lone, c.pos)
	}
	c.pos += size
	return nil
}

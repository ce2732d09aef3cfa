package wirejson

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

const (
	// maxDepth is how deep a message to Codex may be nested. Codex drops deeper messages without an answer.
	maxDepth = 127
	// maxBodyDepth is how deep a body may be nested. Its parts, such as a tool's schema, are at
	// most one level deeper in the message to Codex.
	maxBodyDepth = maxDepth - 1
)

// SyntaxError is an error in a JSON text, at a byte offset (from 0).
type SyntaxError struct {
	offset  int
	problem string // empty: nothing is wrong
}

// Error returns the problem and the offset.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.problem, e.offset) }

// Scanner reads and checks a JSON text in one pass. The text must follow RFC 8259, be UTF-8, and not be
// nested too deeply. After an error, the scanner is at the end. Strings may share the text's memory.
type Scanner struct {
	data       []byte
	pos        int
	depth      int
	depthLimit int // the largest allowed depth
	err        SyntaxError
	// loneHalves has the offsets of escapes that are only one half of a surrogate pair. JSON allows
	// such escapes, but UTF-8 has no form for them, and Codex rejects them.
	loneHalves []int
}

// NewScanner returns a scanner at the beginning of a text. levels bounds how deep arrays and
// objects may be nested: the scanner recurses, and without a bound it could exhaust the stack.
func NewScanner(text []byte, levels int) Scanner { return Scanner{data: text, depthLimit: levels} }

// ValidWithin reports whether a text is one JSON value, in UTF-8 and nested at most depth deep.
func ValidWithin(depth int, text []byte) bool {
	_, err := check(text, depth)
	return err == nil
}

// Readable reports whether Codex can read a text as one JSON value.
func Readable(text []byte) bool {
	loneHalves, err := check(text, maxDepth)
	return err == nil && len(loneHalves) == 0
}

func check(data []byte, depth int) (loneHalves []int, err *SyntaxError) {
	s := NewScanner(data, depth)
	s.Value()
	if !s.End() {
		failed := s.err
		return nil, &failed
	}
	return s.loneHalves, nil
}

// OK reports whether the scanner has found no error yet.
func (s *Scanner) OK() bool { return s.err.problem == "" }

// End reports whether there was no error and only white space is left. If more is left, the scanner fails.
func (s *Scanner) End() bool {
	if s.skipSpace(); s.OK() && s.pos < len(s.data) {
		s.fail("unexpected data after the JSON value")
	}
	return s.OK()
}

// Pos returns the offset of the next byte to read.
func (s *Scanner) Pos() int { return s.pos }

// fail records an error, unless there was one before, and goes to the end of the text.
func (s *Scanner) fail(problem string) {
	if s.OK() {
		s.err = SyntaxError{s.pos, problem}
	}
	s.pos = len(s.data)
}

// unexpected fails with an error about the next byte or the end of the text. wanted is what was expected.
func (s *Scanner) unexpected(wanted string) {
	switch {
	case !s.OK():
	case s.pos >= len(s.data):
		s.fail("unexpected end, expected " + wanted + ",")
	case s.data[s.pos] < ' ', s.data[s.pos] >= utf8.RuneSelf:
		s.fail(fmt.Sprintf("unexpected character %#02x, expected %s,", s.data[s.pos], wanted))
	default:
		s.fail(fmt.Sprintf("unexpected %q, expected %s,", s.data[s.pos], wanted))
	}
}

// Peek skips white space and returns the next byte, or 0 at the end of the text. It also returns 0
// for a NUL byte in the text, which is not allowed where a token is expected.
func (s *Scanner) Peek() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' { // the usual case
		return s.data[s.pos]
	}
	return s.skipSpace()
}

func (s *Scanner) skipSpace() byte {
	if s.pos = spaceEnd(s.data, s.pos); s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// Skip reports whether text comes next. If so, it skips the text.
func (s *Scanner) Skip(text string) bool {
	if len(s.data)-s.pos < len(text) || string(s.data[s.pos:s.pos+len(text)]) != text {
		return false
	}
	s.pos += len(text)
	return true
}

// Expect skips text if it comes next. Otherwise the scanner fails.
func (s *Scanner) Expect(text string) {
	if !s.Skip(text) {
		s.fail("unexpected text")
	}
}

// Object enters an object and reports whether it has a member. It skips other values. To read all members:
//
//	for more := s.Object(); more; more = s.More('}') {
//
// In the loop, [Scanner.Name] reads the name, and one more call reads the value.
func (s *Scanner) Object() bool {
	if s.Peek() != '{' {
		s.Value()
		return false
	}
	return s.Enter('}')
}

// Enter enters the array or object that comes next and reports whether it has an element. end
// is its closing bracket.
func (s *Scanner) Enter(end byte) bool {
	if s.depth++; s.depth > s.depthLimit {
		s.fail(fmt.Sprintf("nested more than %d deep", s.depthLimit))
		return false
	}
	s.pos++
	if s.Peek() != end {
		return true
	}
	s.pos++
	s.depth--
	return false
}

// More goes to the next element of an array or object and returns true, or past end, its closing bracket,
// and returns false. The scanner fails if neither a comma nor end comes next.
func (s *Scanner) More(end byte) bool {
	switch next := s.Peek(); {
	case next == ',':
		s.pos++
		s.Peek()
		return true
	case next == end && next != 0:
		s.pos++
		s.depth--
	case end == '}':
		s.unexpected("a comma or a closing brace")
	default:
		s.unexpected("a comma or a closing bracket")
	}
	return false
}

// Name reads the name of a member, and the colon after it.
func (s *Scanner) Name() string {
	name, ok := s.plainString()
	if !ok {
		if s.Peek() != '"' {
			s.unexpected("a member's name in quotes")
			return ""
		}
		name = s.Text()
	}
	if s.Peek() != ':' {
		s.unexpected("a colon")
		return ""
	}
	s.pos++
	return name
}

// plainString reads the next string if it has only printable ASCII characters and no escapes, as
// nearly all strings do. Otherwise it reads nothing and returns false.
func (s *Scanner) plainString() (text string, ok bool) {
	data, start := s.data, s.pos+1
	if start >= len(data) || data[start-1] != '"' {
		return "", false
	}
	end := PlainEnd(data, start)
	if end >= len(data) || data[end] != '"' {
		return "", false
	}
	s.pos = end + 1
	return Text(data[start:end]), true
}

// Find goes to the value at the end of a path of members, and reads neither this value nor the text after
// it. Of several members with one name, it takes the first. It returns false if there is no such value.
func (s *Scanner) Find(path ...string) bool {
next:
	for _, name := range path {
		for more := s.Object(); more; more = s.More('}') {
			if s.Name() == name {
				continue next
			}
			s.Value()
		}
		return false
	}
	return s.OK()
}

// Value skips a value and returns its JSON.
func (s *Scanner) Value() string {
	next := s.Peek()
	start := s.pos
	switch next {
	case '{':
		for more := s.Enter('}'); more; more = s.More('}') {
			s.Name()
			s.Value()
		}
	case '[':
		for more := s.Enter(']'); more; more = s.More(']') {
			s.Value()
		}
	case '"':
		s.skipString()
	case 't':
		s.skipLiteral("true")
	case 'f':
		s.skipLiteral("false")
	case 'n':
		s.skipLiteral("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.skipNumber()
	default:
		s.unexpected("a value")
	}
	return Text(s.data[start:s.pos])
}

func (s *Scanner) skipLiteral(word string) {
	if !s.Skip(word) {
		s.fail("invalid literal, expected " + word + ",")
	}
}

// Text reads a string. Any other value is skipped, and read as an empty string.
func (s *Scanner) Text() string {
	if text, ok := s.plainString(); ok {
		return text
	}
	if s.Peek() != '"' {
		s.Value()
		return ""
	}
	start := s.pos
	if s.skipString(); !s.OK() {
		return ""
	}
	raw := s.data[start+1 : s.pos-1]
	if bytes.IndexByte(raw, '\\') >= 0 {
		return unescaped(raw)
	}
	return Text(raw) // without escapes, but not only ASCII
}

func (s *Scanner) skipString() {
	s.pos++
	for s.pos < len(s.data) {
		if s.data[s.pos] < utf8.RuneSelf {
			if s.pos = PlainEnd(s.data, s.pos); s.pos == len(s.data) {
				break
			}
		}
		switch b := s.data[s.pos]; {
		case b == '"':
			s.pos++
			return
		case b == '\\':
			s.skipEscape()
		case b < ' ':
			s.fail(fmt.Sprintf("control character %#02x in a string", b))
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				s.fail("invalid UTF-8")
			}
			s.pos += size
		}
	}
	s.pos = min(s.pos, len(s.data))      // after a failure, pos may have gone beyond the end
	s.fail("unexpected end in a string") // unless there was an error before
}

func (s *Scanner) skipEscape() {
	if s.pos+1 >= len(s.data) {
		s.pos = len(s.data)
		return
	}
	unit, ok := codeUnit(s.data[s.pos:])
	switch b := s.data[s.pos+1]; {
	case b == 'u' && !ok:
		s.fail("invalid \\u escape in a string")
		return
	case b != 'u' && escapes[b] == 0:
		s.fail("invalid escape in a string")
		return
	}
	char, size := decodeEscape(s.data[s.pos:])
	if char == utf8.RuneError && unit != utf8.RuneError { // half a pair, not the escape \ufffd
		s.loneHalves = append(s.loneHalves, s.pos)
	}
	s.pos += size
}

// Integer reads an integer. Other values are 0.
func (s *Scanner) Integer() int64 {
	n, _ := strconv.ParseInt(s.Value(), 10, 64)
	return n
}

func (s *Scanner) skipNumber() {
	s.Skip("-")
	ok := s.Skip("0") || s.skipDigits()
	if ok && s.Skip(".") {
		ok = s.skipDigits()
	}
	if ok && (s.Skip("e") || s.Skip("E")) {
		_ = s.Skip("+") || s.Skip("-")
		ok = s.skipDigits()
	}
	if !ok {
		s.unexpected("a digit")
	}
}

func (s *Scanner) skipDigits() bool {
	start := s.pos
	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}
	return s.pos > start
}

package codexrpc

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// maxNesting bounds how deep the values of a line may be nested. Codex reads 128 levels, and
// repeats what it has read some levels deeper.
const maxNesting = 512

// scanner reads the JSON of a line, and checks it, in one pass. Once something is not as
// expected, ok is false and nothing is left. What it returns shares the line's memory.
type scanner struct {
	line  []byte
	pos   int
	depth int
	ok    bool
}

// isJSON reports whether a text is one JSON value, nested no deeper than maxNesting.
func isJSON(text []byte) bool {
	s := scanner{line: text, ok: true}
	s.value()
	s.peek() // skips what may follow
	return s.ok && s.pos == len(text)
}

func (s *scanner) fail() { s.ok, s.pos = false, len(s.line) }

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.line) && s.line[s.pos] > ' ' { // nearly always
		return s.line[s.pos]
	}
	return s.space()
}

// space skips white space and returns the next byte, or 0 at the end.
func (s *scanner) space() byte {
	for ; s.pos < len(s.line); s.pos++ {
		switch c := s.line[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// skip skips a text, if it comes next.
func (s *scanner) skip(text string) bool {
	if len(s.line)-s.pos < len(text) || string(s.line[s.pos:s.pos+len(text)]) != text {
		return false
	}
	s.pos += len(text)
	return true
}

// literal skips a text that has to come next.
func (s *scanner) literal(text string) {
	if !s.skip(text) {
		s.fail()
	}
}

// object enters an object and reports whether it has a member. Any other value is skipped. All
// members are read by
//
//	for more := s.object(); more; more = s.more('}') {
//
// in which [scanner.name] reads the name and one more call the value.
func (s *scanner) object() bool {
	if s.peek() != '{' {
		s.value()
		return false
	}
	return s.enter('}')
}

// enter enters the array or object that comes next and reports whether it has an element.
func (s *scanner) enter(end byte) bool {
	s.pos++
	if s.depth++; s.depth > maxNesting {
		s.fail()
		return false
	}
	if s.peek() != end {
		return true
	}
	s.pos++
	s.depth--
	return false
}

// more goes to the next element of an array or an object, or behind its end. It reports
// whether there is one.
func (s *scanner) more(end byte) bool {
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case end:
		s.pos++
		s.depth--
	default:
		s.fail()
	}
	return false
}

// name reads the name of a member, and the colon behind it.
func (s *scanner) name() string {
	name, ok := s.plain()
	if !ok {
		if s.peek() != '"' {
			s.fail()
			return ""
		}
		name = s.text()
	}
	if s.peek() != ':' {
		s.fail()
		return ""
	}
	s.pos++
	return name
}

// plain reads a string if one of ASCII characters without escapes comes next. Nearly all
// strings are such.
func (s *scanner) plain() (text string, ok bool) {
	line, start := s.line, s.pos+1
	if start >= len(line) || line[start-1] != '"' {
		return "", false
	}
	end := jsontext.PlainEnd(line, start)
	if end >= len(line) || line[end] != '"' {
		return "", false
	}
	s.pos = end + 1
	return view(line[start:end]), true
}

// member goes to the value of the first member of an object with a name. It reports false if
// there is none.
func (s *scanner) member(name string) bool {
	for more := s.object(); more; more = s.more('}') {
		if s.name() == name {
			return s.ok
		}
		s.value()
	}
	return false
}

// value skips a value and returns its JSON.
func (s *scanner) value() []byte {
	next := s.peek()
	start := s.pos
	switch next {
	case '{':
		for more := s.enter('}'); more; more = s.more('}') {
			s.name()
			s.value()
		}
	case '[':
		for more := s.enter(']'); more; more = s.more(']') {
			s.value()
		}
	case '"':
		s.quoted()
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
	return s.line[start:s.pos]
}

// text reads a string. Any other value is skipped, and read as an empty string.
func (s *scanner) text() string {
	if text, ok := s.plain(); ok {
		return text
	}
	if s.peek() != '"' {
		s.value()
		return ""
	}
	raw, escaped := s.quoted()
	if !s.ok {
		return ""
	}
	if escaped {
		return jsontext.Value(raw).Text()
	}
	return view(raw[1 : len(raw)-1])
}

// quoted skips a string and returns it with its quotes, and whether it has escapes.
func (s *scanner) quoted() (raw []byte, escaped bool) {
	for i := s.pos + 1; i < len(s.line); {
		if i = jsontext.PlainEnd(s.line, i); i == len(s.line) {
			break
		}
		switch c := s.line[i]; {
		case c == '"':
			raw, s.pos = s.line[s.pos:i+1], i+1
			return raw, escaped
		case c == '\\':
			escaped = true
			n := escapeSize(s.line[i:])
			if n == 0 {
				s.fail()
				return nil, false
			}
			i += n
		case c < ' ':
			s.fail()
			return nil, false
		default: // DEL, or a part of a character that is not ASCII
			for i++; i < len(s.line) && s.line[i] >= 0x7f; i++ {
			}
		}
	}
	s.fail()
	return nil, false
}

// escapeSize returns the length of the escape at the beginning of text; 0: it is none.
func escapeSize(text []byte) int {
	switch {
	case len(text) < 2:
	case strings.IndexByte(`"\/bfnrt`, text[1]) >= 0:
		return 2
	case text[1] == 'u' && len(text) >= 6:
		for _, c := range text[2:6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// integer reads an integer. Other numbers are rounded, and other values are 0.
func (s *scanner) integer() int64 {
	s.peek()
	if n, ok := s.natural(); ok {
		return n
	}
	raw := view(s.value())
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n
	}
	return gjson.Parse(raw).Int()
}

// natural reads a number if one of digits alone comes next, 18 at most, and then the next
// member or the end of what holds it. Nearly all numbers are such.
func (s *scanner) natural() (n int64, ok bool) {
	line, start, end := s.line, s.pos, s.pos
	for ; end < len(line) && line[end]-'0' <= 9; end++ {
		n = n*10 + int64(line[end]-'0')
	}
	if digits := end - start; digits == 0 || digits > 18 || digits > 1 && line[start] == '0' ||
		end == len(line) || line[end] != ',' && line[end] != '}' {
		return 0, false
	}
	s.pos = end
	return n, true
}

// number skips a number.
func (s *scanner) number() {
	if _, ok := s.natural(); ok {
		return
	}
	s.skip("-")
	if !s.skip("0") {
		s.digits()
	}
	if s.skip(".") {
		s.digits()
	}
	if s.skip("e") || s.skip("E") {
		if !s.skip("+") {
			s.skip("-")
		}
		s.digits()
	}
}

// digits skips one digit or more.
func (s *scanner) digits() {
	end := s.pos
	for end < len(s.line) && '0' <= s.line[end] && s.line[end] <= '9' {
		end++
	}
	if end == s.pos {
		s.fail()
		return
	}
	s.pos = end
}

// view returns bytes as a string that shares their memory.
func view(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

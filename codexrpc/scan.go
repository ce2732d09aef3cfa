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

// container reads an array or an object if one comes next. read is called at each element,
// or at the name of each member, and reads it.
func (s *scanner) container(begin, end byte, read func()) bool {
	if s.peek() != begin {
		return false
	}
	s.pos++
	if s.depth++; s.depth > maxNesting {
		s.fail()
		return true
	}
	if s.peek() != end {
		for read(); s.peek() == ','; read() {
			s.pos++
		}
	}
	if s.peek() != end {
		s.fail()
		return true
	}
	s.pos++
	s.depth--
	return true
}

// members reads an object: member is called with each name and reads the value. Any other
// value is skipped.
func (s *scanner) members(member func(name string)) {
	read := func() {
		if s.peek() != '"' {
			s.fail()
			return
		}
		name := s.name()
		if s.peek() == ':' {
			s.pos++
			member(name)
		} else {
			s.fail()
		}
	}
	if !s.container('{', '}', read) {
		s.value()
	}
}

// name reads the name of a member. A loop over its bytes takes less time than quoted, since
// most names are short.
func (s *scanner) name() string {
	for i := s.pos + 1; i < len(s.line); i++ {
		switch c := s.line[i]; {
		case c == '"':
			name := s.line[s.pos+1 : i]
			s.pos = i + 1
			return view(name)
		case c == '\\' || c < ' ':
			return s.text()
		}
	}
	return s.text()
}

// field says where a member goes: the text of a string, or the JSON of any value.
type field struct {
	name      string
	text, raw *string
}

// fields reads an object. Other members are skipped.
func (s *scanner) fields(wanted ...field) {
	s.members(func(name string) {
		for i := range wanted {
			switch f := &wanted[i]; {
			case f.name != name:
			case f.text != nil:
				*f.text = s.text()
				return
			default:
				*f.raw = view(s.value())
				return
			}
		}
		s.value()
	})
}

// value skips a value and returns its JSON.
func (s *scanner) value() []byte {
	next := s.peek()
	start := s.pos
	switch next {
	case '{':
		s.members(func(string) { s.value() })
	case '[':
		s.container('[', ']', func() { s.value() })
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

// result skips a value and returns it.
func (s *scanner) result() gjson.Result { return gjson.Parse(view(s.value())) }

// text reads a string. Any other value is skipped, and read as an empty string.
func (s *scanner) text() string {
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
	raw := view(s.value())
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return n
	}
	return gjson.Parse(raw).Int()
}

// number skips a number.
func (s *scanner) number() {
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
	start := s.pos
	for s.pos < len(s.line) && '0' <= s.line[s.pos] && s.line[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail()
	}
}

// view returns bytes as a string that shares their memory.
func view(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

package toolschema

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// The words begin with one of these lines.
const (
	partsHeader = "Further JSON Schema keywords of the parameters:"
	wholeHeader = "The complete JSON Schema of the parameters:\n"
)

// loss collects what the model does not see of a schema, with a line for each
// argument:
//
//   - edits[].line: minimum 1, default 1
//
// An argument is named by its path: ".name" for a property, "[]" for the elements of
// an array, ".*" for further properties, and "{anyOf 0}" or "{$defs Node}" for a
// schema in a list or in the definitions.
type loss struct {
	path  []byte
	lines []byte
	limit int // of lines; longer ones are no use
	// unsaid is set if lines cannot say it, so that the whole schema has to be
	// repeated.
	unsaid bool
}

// words are what the description of the tool needs, for the schema in text.
func (l *loss) words(text []byte) string {
	switch {
	case !l.unsaid && len(l.lines) == 0:
		return ""
	case l.unsaid || len(partsHeader)+len(l.lines) > len(wholeHeader)+len(text):
		return wholeHeader + string(text)
	}
	return partsHeader + string(l.lines)
}

// enter adds a step to the path, to the schema of this name or index in a member. It
// returns what leave needs to take the step back.
func (l *loss) enter(m member, name string, index int) (back int) {
	back = len(l.path)
	switch m.keyword {
	case "items":
		l.path = append(l.path, "[]"...)
	case "properties":
		if back > 0 {
			l.path = append(l.path, '.')
		}
		l.path = appendName(l.path, name)
	case "additionalProperties":
		if back > 0 {
			l.path = append(l.path, '.')
		}
		l.path = append(l.path, '*')
	default:
		l.path = append(append(append(l.path, '{'), m.keyword...), ' ')
		if m.form == formSchemaList {
			l.path = strconv.AppendInt(l.path, int64(index), 10)
		} else {
			l.path = appendName(l.path, name)
		}
		l.path = append(l.path, '}')
	}
	return back
}

func (l *loss) leave(back int) { l.path = l.path[:back] }

// ofSchema notes the members of a schema that are not kept. name is that of the
// argument.
func (l *loss) ofSchema(s *schema, name string, kept func(member) bool) {
	begun := false
	note := func(m member) {
		l.unsaid = l.unsaid || m.refersElsewhere()
		l.keyword(&begun, m.keyword, m.value)
	}
	for _, m := range s.known {
		switch {
		case kept(m):
			l.unsaid = l.unsaid || m.form == formRef && m.refersElsewhere()
		case m.form != formUntold:
			note(m)
		}
	}
	for _, m := range s.dropped {
		if m.keyword != "title" || !repeats(m.value, name) {
			note(m)
		}
	}
}

// noSchema notes a value in the place of a schema that is no object.
func (l *loss) noSchema(v jsontext.Value) {
	switch {
	case v.Kind() != jsontext.KindBool:
		l.unsaid = true
	case !v.IsTrue():
		l.keyword(new(bool), "not", jsontext.Value("{}"))
	}
}

// keyword adds a keyword to the line of the schema, and begins the line before the
// first.
func (l *loss) keyword(begun *bool, keyword string, value jsontext.Value) {
	if l.unsaid || len(l.lines) > l.limit {
		l.unsaid = true
		return
	}
	switch {
	case *begun:
		l.lines = append(l.lines, ", "...)
	case len(l.path) == 0:
		l.lines = append(l.lines, "\n- (all): "...)
	default:
		l.lines = append(append(append(l.lines, "\n- "...), l.path...), ": "...)
	}
	*begun = true
	l.lines = append(append(appendName(l.lines, keyword), ' '), value...)
}

// appendName appends a name, as a JSON string if it has other characters than the
// usual ones.
func appendName(dst []byte, name string) []byte {
	for _, b := range []byte(name) {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') && b != '_' && b != '-' && b != '$' {
			return jsontext.AppendString(dst, name)
		}
	}
	if name == "" {
		return append(dst, `""`...)
	}
	return append(dst, name...)
}

// maxTitle is the length of the longest title that may repeat a name.
const maxTitle = 256

// repeats reports whether a title is but the name of its argument, as some
// generators of schemas write it.
func repeats(title jsontext.Value, name string) bool {
	if title.Kind() != jsontext.KindString || len(title) > maxTitle || len(name) > maxTitle {
		return false
	}
	fold := func(s []byte) string {
		return strings.ToLower(string(bytes.Map(func(r rune) rune {
			if r == ' ' || r == '_' || r == '-' {
				return -1
			}
			return r
		}, s)))
	}
	return fold(title.Bytes()) == fold([]byte(name))
}

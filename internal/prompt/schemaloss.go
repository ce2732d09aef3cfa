package prompt

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The words that describe a schema for the model begin with one of these lines.
const (
	partsHeader = "Further JSON Schema keywords of the parameters:"
	wholeHeader = "The complete JSON Schema of the parameters:\n"
)

// loss collects the keywords that Codex removes from a schema, in one line for each argument:
//
//   - edits[].line: minimum 1, default 1
//
// An argument is named by its path: ".name" for a property, "[]" for the elements of
// an array, ".*" for further properties, and "{anyOf 0}" or "{$defs Node}" for a
// schema in a list or in the definitions.
type loss struct {
	lines []byte
	limit int // the most bytes of lines
	// needsWhole is true if lines cannot express the loss. The words are then the
	// whole schema.
	needsWhole bool
}

// words returns the text about the removed keywords, for the description of the tool. text is the
// tool's schema.
func (l *loss) words(text []byte) string {
	switch {
	case !l.needsWhole && len(l.lines) == 0:
		return ""
	case l.needsWhole || len(partsHeader)+len(l.lines) > len(wholeHeader)+len(text):
		return wholeHeader + string(text)
	}
	return partsHeader + string(l.lines)
}

// appendStep appends a step to the path of a schema. The step leads to the child with this name or
// index in the value of the schema's member m.
func appendStep(path []byte, m member, name string, index int) []byte {
	switch m.keyword {
	case "items":
		return append(path, "[]"...)
	case "properties", "additionalProperties":
		if len(path) > 0 {
			path = append(path, '.')
		}
		if m.keyword == "properties" {
			return appendName(path, name)
		}
		return append(path, '*')
	}
	path = append(append(append(path, '{'), m.keyword...), ' ')
	if m.shape == shapeSchemaList {
		path = strconv.AppendInt(path, int64(index), 10)
	} else {
		path = appendName(path, name)
	}
	return append(path, '}')
}

// ofSchema adds the members of a schema for which kept returns false to the lines. name is the name
// of the property that has the schema, or empty.
func (l *loss) ofSchema(s *schema, name string, path []byte, kept func(member) bool) {
	begun := false
	note := func(m member) {
		l.needsWhole = l.needsWhole || m.refersElsewhere()
		l.keyword(&begun, path, m.keyword, m.value)
	}
	for _, m := range s.known {
		switch {
		case kept(m):
			l.needsWhole = l.needsWhole || m.shape == shapeRef && m.refersElsewhere()
		case m.shape != shapeIrrelevant:
			note(m)
		}
	}
	for _, m := range s.dropped {
		if m.keyword != "title" || !repeats(m.value, name) {
			note(m)
		}
	}
}

// notASchema adds a value that stands in the place of a schema but is not an object.
func (l *loss) notASchema(path []byte, v wirejson.Value) {
	switch {
	case v.Kind() != wirejson.KindBool:
		l.needsWhole = true
	case !v.IsTrue():
		l.keyword(new(bool), path, "not", wirejson.Value("{}"))
	}
}

// keyword adds a keyword to the line of a schema. If begun is false, it first begins the line and
// sets begun.
func (l *loss) keyword(begun *bool, path []byte, keyword string, value wirejson.Value) {
	if l.needsWhole || len(l.lines) > l.limit {
		l.needsWhole = true
		return
	}
	switch {
	case *begun:
		l.lines = append(l.lines, ", "...)
	case len(path) == 0:
		l.lines = append(l.lines, "\n- (all): "...)
	default:
		l.lines = append(append(append(l.lines, "\n- "...), path...), ": "...)
	}
	*begun = true
	l.lines = append(append(appendName(l.lines, keyword), ' '), value...)
}

// appendName appends a name. It appends a JSON string if the name is empty or has characters other
// than letters, digits, '_', '-' and '$'.
func appendName(dst []byte, name string) []byte {
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') && r != '_' && r != '-' && r != '$'
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return wirejson.AppendString(dst, name)
	}
	return append(dst, name...)
}

// repeats reports whether a title only repeats the name of its property. Some generators
// write such titles.
func repeats(title wirejson.Value, name string) bool {
	const most = 256
	if title.Kind() != wirejson.KindString || len(title) > most || len(name) > most {
		return false
	}
	bare := func(s string) string { return spaces.Replace(strings.ToLower(s)) }
	return bare(title.Text()) == bare(name)
}

var spaces = strings.NewReplacer(" ", "", "_", "", "-", "")

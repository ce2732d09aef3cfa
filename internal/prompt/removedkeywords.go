package prompt

import (
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// The description of a tool may end with a text about its schema, which begins with one of these.
const (
	keywordsHeader = "Further JSON Schema keywords of the parameters:"
	wholeHeader    = "The complete JSON Schema of the parameters:\n"
)

// removedKeywords collects the keywords that Codex removes, as one line for each argument:
//
//   - edits[].line: minimum 1, default 1
//
// The path of an argument comes first: ".name" for a property, "[]" for elements of an array, ".*" for
// additional properties, "{anyOf 0}" or "{$defs Node}" for a schema in a list or the definitions.
type removedKeywords struct {
	lines    []byte
	maxBytes int // if lines has more bytes, the description has the whole schema instead
	// needsWholeSchema is true if lines are not enough: the description has the whole schema.
	needsWholeSchema bool
}

// description returns the text for the tool's description, or "". text is the tool's schema.
func (r *removedKeywords) description(text []byte) string {
	switch {
	case !r.needsWholeSchema && len(r.lines) == 0:
		return ""
	case r.needsWholeSchema || len(keywordsHeader)+len(r.lines) > len(wholeHeader)+len(text):
		return wholeHeader + string(text)
	}
	return keywordsHeader + string(r.lines)
}

// appendStep appends to the path of a schema the step to the child of member m with this name or index.
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

// addMembers adds to the line of the schema s the members that isKept refuses, since Codex removes them.
// name is the name of the property that has this schema, or empty. path is the path of the schema.
func (r *removedKeywords) addMembers(s *schema, name string, path []byte, isKept func(member) bool) {
	line := len(r.lines)
	add := func(m member) {
		r.needsWholeSchema = r.needsWholeSchema || m.refersElsewhere()
		r.addKeyword(line, path, m.keyword, m.value)
	}
	for _, m := range s.known {
		switch {
		case isKept(m): // Codex may nevertheless remove the schema to which a $ref refers
			r.needsWholeSchema = r.needsWholeSchema || m.shape == shapeRef && m.refersElsewhere()
		case m.shape != shapeIrrelevant:
			add(m)
		}
	}
	for _, m := range s.dropped {
		if m.keyword != "title" || !repeatsName(m.value, name) {
			add(m)
		}
	}
}

// addNonSchema handles a value that stands for a schema and is no object. true needs no line. false gets a
// line with the keyword not. For any other value, the description needs the whole schema.
func (r *removedKeywords) addNonSchema(path []byte, v wirejson.Value) {
	switch {
	case v.Kind() != wirejson.KindBool:
		r.needsWholeSchema = true
	case !v.IsTrue():
		r.addKeyword(len(r.lines), path, "not", wirejson.Value("{}"))
	}
}

// addKeyword adds a keyword to the line of a schema. line is the index in r.lines at which this line
// begins. If the lines are too long already, addKeyword sets needsWholeSchema instead.
func (r *removedKeywords) addKeyword(line int, path []byte, keyword string, value wirejson.Value) {
	if r.needsWholeSchema || len(r.lines) > r.maxBytes {
		r.needsWholeSchema = true
		return
	}
	switch {
	case len(r.lines) > line:
		r.lines = append(r.lines, ", "...)
	case len(path) == 0:
		r.lines = append(r.lines, "\n- (all): "...)
	default:
		r.lines = append(append(append(r.lines, "\n- "...), path...), ": "...)
	}
	r.lines = append(append(appendName(r.lines, keyword), ' '), value...)
}

// appendName appends a name, quoted if it is empty or not only letters, digits, '_', '-' and '$'.
func appendName(dst []byte, name string) []byte {
	needsQuotes := func(r rune) bool {
		return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') && r != '_' && r != '-' && r != '$'
	}
	if name == "" || strings.ContainsFunc(name, needsQuotes) {
		return wirejson.AppendString(dst, name)
	}
	return append(dst, name...)
}

// repeatsName reports whether a title, as some programs generate it, only repeats the property's name.
func repeatsName(title wirejson.Value, name string) bool {
	const maxLength = 256
	if title.Kind() != wirejson.KindString || len(title) > maxLength || len(name) > maxLength {
		return false
	}
	normalize := func(s string) string { return separators.Replace(strings.ToLower(s)) }
	return normalize(title.Text()) == normalize(name)
}

var separators = strings.NewReplacer(" ", "", "_", "", "-", "")

package toolschema

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// schema is a schema as the client wrote it.
type schema struct {
	text    jsontext.Value
	known   []member // the members of an object whose keywords are in the table, each once
	dropped []member // its other members
}

// member is a keyword of a schema and its value.
type member struct {
	keyword  string
	form     form // of the keyword
	value    jsontext.Value
	valid    bool    // whether the value has that form, so that Codex keeps the member
	children []child // the schemas in a value that is valid
}

// child is a schema within the value of a keyword.
type child struct {
	name   string // of a property or definition; else empty
	schema schema
}

// readSchema reads a schema, descending into the keywords that hold schemas and that Codex
// keeps. Every byte is read once.
func readSchema(c *jsontext.Cursor) (s schema) {
	if c.Kind() != jsontext.KindObject {
		s.text = c.Skip()
		return s
	}
	s.text = c.Read(func() {
		for c.Enter(); c.Next(); {
			m := member{keyword: c.Name().Text()}
			m.form = keywords[m.keyword]
			m.value = c.Read(func() { m.children = readChildren(c, m.form) })
			m.valid = m.wellFormed()
			s.add(m)
		}
	})
	return s
}

// readChildren reads the value at the cursor and returns the schemas in it.
func readChildren(c *jsontext.Cursor, f form) (children []child) {
	switch kind := c.Kind(); {
	case f == formSchemaMap && kind == jsontext.KindObject:
		for c.Enter(); c.Next(); {
			name := c.Name().Text()
			children = append(children, child{name, readSchema(c)})
		}
	case f == formSchemaList && kind == jsontext.KindArray:
		for c.Enter(); c.Next(); {
			children = append(children, child{"", readSchema(c)})
		}
	case f == formSchema && (kind == jsontext.KindObject || kind == jsontext.KindBool):
		children = []child{{"", readSchema(c)}}
	default:
		c.Skip()
	}
	return children
}

// add adds a member. If a keyword occurs twice, the last one counts, as for Codex.
func (s *schema) add(m member) {
	switch {
	case m.value.Kind() == jsontext.KindNull && !slices.Contains([]string{"const", "default", "example"}, m.keyword): // the same as no member
	case m.form == formDropped:
		s.dropped = append(s.dropped, m)
	default:
		if i := slices.IndexFunc(s.known, func(k member) bool { return k.keyword == m.keyword }); i >= 0 {
			s.known[i] = m
		} else {
			s.known = append(s.known, m)
		}
	}
}

// get returns the value of a keyword that Codex keeps. It is nil if the schema does not
// have the keyword, or has it with an invalid value.
func (s *schema) get(keyword string) jsontext.Value {
	for _, m := range s.known {
		if m.keyword == keyword && m.valid {
			return m.value
		}
	}
	return nil
}

// has reports whether the schema has one of the keywords that Codex keeps.
func (s *schema) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return s.get(name) != nil })
}

// hasDropped reports whether the schema has one of the keywords that Codex drops.
func (s *schema) hasDropped(names ...string) bool {
	return slices.ContainsFunc(s.dropped, func(m member) bool { return slices.Contains(names, m.keyword) })
}

// isTyped reports whether Codex adds no type to the schema, because it has a type or a
// keyword that replaces one.
func (s *schema) isTyped() bool { return s.has("type", "$ref", "anyOf", "oneOf", "allOf") }

// inferType returns the type to add to a schema, in JSON. It is empty if none has to be
// added or none is known. It is the type that Codex would add, except for const and enum:
// there it is the type of their values.
func (s *schema) inferType() string {
	if s.isTyped() {
		return ""
	}
	if v := s.get("const"); v != nil {
		return typeOf(v)
	}
	if v := s.get("enum"); v != nil && !v.IsEmptyArray() {
		return typesOf(v)
	}
	switch {
	case s.has("properties", "required", "additionalProperties"):
		return `"object"`
	case s.has("items"), s.hasDropped("prefixItems"):
		return `"array"`
	case s.hasDropped("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		return `"number"`
	case s.has("enum"), s.hasDropped("format"):
		return `"string"`
	}
	return ""
}

// typesOf returns the types of the elements of a list, each once.
func typesOf(list jsontext.Value) string {
	var found []string
	for _, v := range list.Elements() {
		if typ := typeOf(v); !slices.Contains(found, typ) {
			found = append(found, typ)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return "[" + strings.Join(found, ",") + "]"
}

func typeOf(v jsontext.Value) string {
	if v.Kind() == jsontext.KindNumber && !strings.ContainsAny(string(v), ".eE") {
		return `"integer"`
	}
	return typeNames[v.Kind()]
}

var typeNames = map[jsontext.Kind]string{
	jsontext.KindString: `"string"`, jsontext.KindBool: `"boolean"`, jsontext.KindNull: `"null"`,
	jsontext.KindArray: `"array"`, jsontext.KindObject: `"object"`, jsontext.KindNumber: `"number"`,
}

// contains reports whether a type, or a list of types, in JSON has a name in it.
func contains(types, name string) bool { return strings.Contains(types, `"`+name+`"`) }

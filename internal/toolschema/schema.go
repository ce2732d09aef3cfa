package toolschema

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// schema is a schema as the client wrote it.
type schema struct {
	text    wirejson.Value
	known   []member // the members of an object whose keywords are in the table, each once
	dropped []member // its other members
}

// member is a keyword of a schema and its value.
type member struct {
	keyword  string
	form     form // of the keyword
	value    wirejson.Value
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
func readSchema(c *wirejson.Cursor) (s schema) {
	if c.Kind() != wirejson.KindObject {
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
func readChildren(c *wirejson.Cursor, f form) (children []child) {
	switch kind := c.Kind(); {
	case f == formSchemaMap && kind == wirejson.KindObject:
		for c.Enter(); c.Next(); {
			name := c.Name().Text()
			children = append(children, child{name, readSchema(c)})
		}
	case f == formSchemaList && kind == wirejson.KindArray:
		for c.Enter(); c.Next(); {
			children = append(children, child{"", readSchema(c)})
		}
	case f == formSchema && (kind == wirejson.KindObject || kind == wirejson.KindBool):
		children = []child{{"", readSchema(c)}}
	default:
		c.Skip()
	}
	return children
}

// add adds a member. If a keyword occurs twice, the last one counts, as for Codex.
func (s *schema) add(m member) {
	switch {
	case m.value.Kind() == wirejson.KindNull && !slices.Contains([]string{"const", "default", "example"}, m.keyword): // the same as no member
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
func (s *schema) get(keyword string) wirejson.Value {
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
func typesOf(list wirejson.Value) string {
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

func typeOf(v wirejson.Value) string {
	if v.Kind() == wirejson.KindNumber && !strings.ContainsAny(string(v), ".eE") {
		return `"integer"`
	}
	return typeNames[v.Kind()]
}

var typeNames = map[wirejson.Kind]string{
	wirejson.KindString: `"string"`, wirejson.KindBool: `"boolean"`, wirejson.KindNull: `"null"`,
	wirejson.KindArray: `"array"`, wirejson.KindObject: `"object"`, wirejson.KindNumber: `"number"`,
}

// form is the form that Codex expects of the value of a keyword.
type form int

const (
	formDropped    form = iota // Codex removes the keyword
	formIrrelevant             // Codex removes it, and it says nothing of the arguments
	formAny                    // any value
	formTypes                  // the name of a type, or a list of such names
	formString                 // a string
	formStrings                // a list of strings
	formBool                   // a boolean
	formCount                  // a whole number, not negative
	formList                   // any list
	formRef                    // a reference to another schema
	formSchema                 // a schema
	formSchemaList             // a list of schemas
	formSchemaMap              // an object with schemas
)

// keywords is the table of the keywords that Codex keeps, and of those that say nothing
// of the arguments since they are about the document or for its authors.
var keywords = map[string]form{
	"$ref":                 formRef,
	"$defs":                formSchemaMap,
	"definitions":          formSchemaMap,
	"type":                 formTypes,
	"description":          formString,
	"encrypted":            formBool,
	"const":                formAny,
	"enum":                 formList,
	"items":                formSchema,
	"minItems":             formCount,
	"properties":           formSchemaMap,
	"required":             formStrings,
	"additionalProperties": formSchema,
	"anyOf":                formSchemaList,
	"oneOf":                formSchemaList,
	"allOf":                formSchemaList,

	"$schema": formIrrelevant, "$id": formIrrelevant, "$comment": formIrrelevant, "$vocabulary": formIrrelevant,
	"$anchor": formIrrelevant, "$dynamicAnchor": formIrrelevant, "$recursiveAnchor": formIrrelevant,
}

var types = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// wellFormed reports whether Codex keeps the member as it is.
func (m member) wellFormed() bool {
	kind := m.value.Kind()
	switch m.form {
	case formAny:
		return true
	case formTypes:
		return !m.value.IsEmptyArray() && all(m.value, func(v wirejson.Value) bool { return slices.ContainsFunc(types, v.Is) })
	case formString, formRef:
		return kind == wirejson.KindString
	case formStrings:
		return kind == wirejson.KindArray && all(m.value, func(v wirejson.Value) bool { return v.Kind() == wirejson.KindString })
	case formBool:
		return kind == wirejson.KindBool
	case formCount:
		_, err := strconv.ParseUint(string(m.value), 10, 64)
		return err == nil
	case formList, formSchemaList:
		return kind == wirejson.KindArray
	case formSchema:
		return kind == wirejson.KindObject || kind == wirejson.KindBool
	case formSchemaMap:
		return kind == wirejson.KindObject
	}
	return false
}

// all reports whether ok holds for a value or, if it is a list, for its elements.
func all(v wirejson.Value, ok func(wirejson.Value) bool) bool {
	if v.Kind() != wirejson.KindArray {
		return ok(v)
	}
	for _, v := range v.Elements() {
		if !ok(v) {
			return false
		}
	}
	return true
}

// refersElsewhere reports whether the member refers to a schema that Codex may remove or
// move. Codex keeps the root and the root's definitions.
func (m member) refersElsewhere() bool {
	if m.form != formRef {
		return bytes.Contains(m.value, []byte(`"$ref"`)) ||
			m.keyword == "$dynamicRef" || m.keyword == "$recursiveRef"
	}
	if m.value.Kind() != wirejson.KindString {
		return true
	}
	ref := m.value.Bytes()
	for _, table := range []string{"#/$defs/", "#/definitions/"} {
		if name, ok := bytes.CutPrefix(ref, []byte(table)); ok {
			return bytes.IndexByte(name, '/') >= 0
		}
	}
	return string(ref) != "#"
}

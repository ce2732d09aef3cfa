package prompt

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// schema is a JSON Schema as the client wrote it.
type schema struct {
	text    wirejson.Value
	known   []member // the members with keywords of the table keywordShapes, each keyword once
	dropped []member // the other members
}

type member struct {
	keyword  string
	shape    shape // the shape that the value of the keyword must have
	value    wirejson.Value
	valid    bool    // the value has that shape, and Codex keeps the member
	children []child // the schemas in a valid value
}

type child struct {
	name   string // the name of a property or definition; otherwise empty
	schema schema
}

// readSchema reads a schema, and the schemas within keywords that Codex keeps, in one pass.
func readSchema(c *wirejson.Cursor) (s schema) {
	if c.Kind() != wirejson.KindObject {
		s.text = c.Skip()
		return s
	}
	s.text = c.Read(func() {
		for c.Enter(); c.Next(); {
			m := member{keyword: c.Name().Text()}
			m.shape = keywordShapes[m.keyword]
			m.value = c.Read(func() { m.children = readChildren(c, m.shape) })
			m.valid = m.isWellFormed()
			s.add(m)
		}
	})
	return s
}

func readChildren(c *wirejson.Cursor, valueShape shape) (children []child) {
	switch kind := c.Kind(); {
	case valueShape == shapeSchemaMap && kind == wirejson.KindObject:
		for c.Enter(); c.Next(); {
			name := c.Name().Text()
			children = append(children, child{name, readSchema(c)})
		}
	case valueShape == shapeSchemaList && kind == wirejson.KindArray:
		for c.Enter(); c.Next(); {
			children = append(children, child{"", readSchema(c)})
		}
	case valueShape == shapeSchema && (kind == wirejson.KindObject || kind == wirejson.KindBool):
		children = []child{{"", readSchema(c)}}
	default:
		c.Skip()
	}
	return children
}

// add adds a member. If a keyword of keywordShapes occurs twice, the last one counts, as in Codex.
func (s *schema) add(m member) {
	switch {
	case m.value.Kind() == wirejson.KindNull && !slices.Contains([]string{"const", "default", "example"}, m.keyword): // null counts as if the schema did not have the keyword
	case m.shape == shapeDropped:
		s.dropped = append(s.dropped, m)
	default:
		if i := slices.IndexFunc(s.known, func(k member) bool { return k.keyword == m.keyword }); i >= 0 {
			s.known[i] = m
		} else {
			s.known = append(s.known, m)
		}
	}
}

// get returns the valid value of a keyword that Codex keeps, or nil.
func (s *schema) get(keyword string) wirejson.Value {
	for _, m := range s.known {
		if m.keyword == keyword && m.valid {
			return m.value
		}
	}
	return nil
}

// has reports whether one of these keywords, which Codex keeps, has a valid value.
func (s *schema) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return s.get(name) != nil })
}

func (s *schema) hasDropped(names ...string) bool {
	return slices.ContainsFunc(s.dropped, func(m member) bool { return slices.Contains(names, m.keyword) })
}

// isTyped reports whether the schema has a type, or a keyword in place of a type, so that Codex adds none.
func (s *schema) isTyped() bool { return s.has("type", "$ref", "anyOf", "oneOf", "allOf") }

// inferType returns the JSON of the type to add to a schema: the type of the values of const or enum,
// otherwise the type that Codex would add. It returns "" if the schema needs no type, or if none is found.
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

// shape is the form that Codex expects for the value of a keyword.
type shape int

const (
	shapeDropped    shape = iota // Codex removes the keyword
	shapeIrrelevant              // Codex removes the keyword, and the keyword says nothing about the arguments
	shapeAny                     // any value
	shapeTypes                   // the name of a type, or a list of such names
	shapeString                  // a string
	shapeStrings                 // a list of strings
	shapeBool                    // a boolean
	shapeCount                   // a whole number, not negative
	shapeList                    // any list
	shapeRef                     // a reference to another schema
	shapeSchema                  // a schema
	shapeSchemaList              // a list of schemas
	shapeSchemaMap               // an object with schemas
)

// keywordShapes has the shape of each keyword that Codex keeps, or that says nothing about arguments.
var keywordShapes = map[string]shape{
	"$ref":                 shapeRef,
	"$defs":                shapeSchemaMap,
	"definitions":          shapeSchemaMap,
	"type":                 shapeTypes,
	"description":          shapeString,
	"encrypted":            shapeBool,
	"const":                shapeAny,
	"enum":                 shapeList,
	"items":                shapeSchema,
	"minItems":             shapeCount,
	"properties":           shapeSchemaMap,
	"required":             shapeStrings,
	"additionalProperties": shapeSchema,
	"anyOf":                shapeSchemaList,
	"oneOf":                shapeSchemaList,
	"allOf":                shapeSchemaList,

	"$schema": shapeIrrelevant, "$id": shapeIrrelevant, "$comment": shapeIrrelevant, "$vocabulary": shapeIrrelevant,
	"$anchor": shapeIrrelevant, "$dynamicAnchor": shapeIrrelevant, "$recursiveAnchor": shapeIrrelevant,
}

var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// isWellFormed reports whether Codex keeps the member as it is.
func (m member) isWellFormed() bool {
	kind := m.value.Kind()
	switch m.shape {
	case shapeAny:
		return true
	case shapeTypes:
		return !m.value.IsEmptyArray() && allMatch(m.value, func(v wirejson.Value) bool { return slices.ContainsFunc(schemaTypes, v.Is) })
	case shapeString, shapeRef:
		return kind == wirejson.KindString
	case shapeStrings:
		return kind == wirejson.KindArray && allMatch(m.value, func(v wirejson.Value) bool { return v.Kind() == wirejson.KindString })
	case shapeBool:
		return kind == wirejson.KindBool
	case shapeCount:
		_, err := strconv.ParseUint(string(m.value), 10, 64)
		return err == nil
	case shapeList, shapeSchemaList:
		return kind == wirejson.KindArray
	case shapeSchema:
		return kind == wirejson.KindObject || kind == wirejson.KindBool
	case shapeSchemaMap:
		return kind == wirejson.KindObject
	}
	return false
}

// allMatch reports whether match is true for a value or, if it is a list, for all its elements.
func allMatch(v wirejson.Value, match func(wirejson.Value) bool) bool {
	if v.Kind() != wirejson.KindArray {
		return match(v)
	}
	for _, v := range v.Elements() {
		if !match(v) {
			return false
		}
	}
	return true
}

// refersElsewhere reports whether the member refers to a schema that Codex may remove or move: to
// any schema other than the root and the definitions of the root. If the member is not $ref itself,
// any $ref in its value counts as such a reference. $dynamicRef and $recursiveRef always count.
func (m member) refersElsewhere() bool {
	if m.shape != shapeRef {
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

package prompt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Codex rewrites tools' schemas for the model. Codex 0.171 does this, as an end-to-end test compares:
//
//   - It keeps these keywords: $ref, $defs, definitions, type, description, encrypted,
//     enum, items, minItems, properties, required, additionalProperties, anyOf, oneOf
//     and allOf. It turns const into an enum. It removes all other keywords, such as
//     default, pattern and minimum.
//   - It adds a type to a schema without one: object if there are properties, required
//     or additionalProperties, array for items or prefixItems, string for const, enum or
//     format, number for limits of numbers. A schema that has none of these, and no $ref,
//     anyOf, oneOf or allOf, loses all its keywords.
//   - It adds the items {"type":"string"} to an array without items. It also replaces
//     the schemas true and false by {"type":"string"}.
//   - It refuses the thread if the value of a keyword has the wrong shape.
//   - If the result has more than 5,000 bytes, it removes all descriptions, then the
//     definitions, then deeply nested objects and compositions.
//
// fitSchema corrects what it can, and puts what Codex removes into the tool's description, which stays.

const (
	// schemaBudget is the length, in bytes, up to which Codex keeps the descriptions of a schema.
	schemaBudget = 5000
	// maxParsedBytes is the length, in bytes, up to which fitSchema parses a schema. A longer
	// schema is far above schemaBudget, so all of it goes into the description of the tool.
	maxParsedBytes = 1 << 20
)

// fitSchema returns the schema that Codex gets in place of text, the compact JSON of a tool's schema.
// moreDescription is for the end of the tool's description: it has what Codex removes from text, and is
// empty if Codex removes nothing. It is never longer than wholeHeader followed by text.
func fitSchema(text json.RawMessage) (fitted json.RawMessage, moreDescription string) {
	if len(text) > maxParsedBytes {
		return text, wholeHeader + string(text)
	}
	root := readSchema(wirejson.NewCursor(wirejson.Value(text)))
	f := fitRoot(&root, false)
	if f.size() > schemaBudget {
		f = fitRoot(&root, true) // Codex will remove the descriptions first
		f.removed.needsWholeSchema = f.removed.needsWholeSchema || f.size() > schemaBudget
	}
	return f.out, f.removed.description(text)
}

// fitter writes a schema for Codex, and collects the keywords that Codex will remove.
type fitter struct {
	out            []byte
	addedBytes     int  // how many bytes Codex will add to the schema
	noDescriptions bool // Codex will remove the descriptions
	removed        removedKeywords
}

// fitRoot writes the schema root. noDescriptions says that Codex will remove the descriptions.
func fitRoot(root *schema, noDescriptions bool) *fitter {
	f := &fitter{out: make([]byte, 0, len(root.text)), noDescriptions: noDescriptions, removed: removedKeywords{maxBytes: len(root.text)}}
	f.writeSchema(root, "", make([]byte, 0, 64))
	return f
}

// size returns the length of the schema as Codex measures it, or a little more.
func (f *fitter) size() int { return len(f.out) + f.addedBytes }

// writeSchema appends s to f.out in a form that Codex accepts. name is the name of the property that has
// the schema s, or empty. path is the path of the argument, see [removedKeywords].
func (f *fitter) writeSchema(s *schema, name string, path []byte) {
	if s.text.Kind() != wirejson.KindObject {
		f.out = append(f.out, "{}"...)
		f.removed.addNonSchema(path, s.text)
		return
	}
	typ := s.inferType()
	if len(path) == 0 && typ == "" && !s.isTyped() {
		typ = `"object"` // arguments are always an object
	}
	hasType := typ != "" || s.isTyped()
	isKept := func(m member) bool { return m.valid && hasType && (!f.noDescriptions || m.keyword != "description") }
	f.removed.addMembers(s, name, path, isKept)

	f.out = append(f.out, '{')
	if typ != "" {
		f.writeName("type")
		f.out = append(f.out, typ...)
	}
	for _, m := range s.known {
		if isKept(m) {
			f.writeName(m.keyword)
			f.writeValue(m, path)
		}
	}
	typ = cmp.Or(typ, string(s.get("type")))
	if strings.Contains(typ, `"array"`) && !s.has("items") {
		f.writeName("items") // else Codex would allow only strings as elements
		f.out = append(f.out, "{}"...)
	}
	if strings.Contains(typ, `"object"`) && !s.has("properties") {
		f.addedBytes += len(`,"properties":{}`) // Codex adds them
	}
	f.out = append(f.out, '}')
}

// writeValue appends the value of the member m to f.out. path is the path of the schema that has m.
func (f *fitter) writeValue(m member, path []byte) {
	switch m.shape {
	case shapeSchema:
		if m.keyword == "additionalProperties" && m.value.Kind() == wirejson.KindBool {
			break // Codex keeps a boolean here
		}
		f.writeChild(m, 0, path)
		return
	case shapeSchemaList, shapeSchemaMap:
		f.out = append(f.out, m.value[0]) // [ or {
		for i := range m.children {
			if m.shape == shapeSchemaMap {
				f.writeName(m.children[i].name)
			} else if i > 0 {
				f.out = append(f.out, ',')
			}
			f.writeChild(m, i, path)
		}
		f.out = append(f.out, m.value[len(m.value)-1])
		return
	case shapeAny:
		f.addedBytes += len(`enum[]`) - len(`const`) + exponentBytes(m.value) // const becomes an enum
	case shapeList:
		for _, v := range m.value.Elements() {
			f.addedBytes += exponentBytes(v)
		}
	}
	f.out = append(f.out, m.value...)
}

// exponentBytes returns how many bytes longer Codex writes a value with an exponent: 1e3 becomes 1e+3.
func exponentBytes(v wirejson.Value) int {
	if v.Kind() == wirejson.KindNumber && bytes.ContainsAny(v, "eE") {
		return 1
	}
	return 0
}

func (f *fitter) writeChild(m member, i int, path []byte) {
	c := &m.children[i]
	f.writeSchema(&c.schema, c.name, appendStep(path, m, c.name, i))
}

// writeName appends the name of a member to f.out, after a comma unless it is the first of the object.
func (f *fitter) writeName(name string) {
	if f.out[len(f.out)-1] != '{' {
		f.out = append(f.out, ',')
	}
	f.out = append(wirejson.AppendString(f.out, name), ':')
}

package prompt

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Codex rewrites the schemas of tools before the model sees them. Codex 0.169 does the following;
// an end-to-end test compares this list with the real program.
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
// fitSchema corrects the schema where it can. It puts the rest of the schema into words for the
// description of the tool, since Codex does not change descriptions of tools.

const (
	// budget is the length, in bytes, up to which Codex removes no descriptions from a schema.
	budget = 5000
	// maxRead is the length, in bytes, up to which a schema is parsed. A longer schema is far above
	// the budget, so all of it goes into the description of the tool.
	maxRead = 1 << 20
)

// fitSchema returns the schema to give to Codex instead of text, which is a compact JSON
// object. It also returns words for the end of the tool's description: the parts of text
// that Codex would not show to the model. They are empty if Codex shows all of text, and
// never longer than text and one line.
func fitSchema(text json.RawMessage) (fitted json.RawMessage, words string) {
	if len(text) > maxRead {
		return text, wholeHeader + string(text)
	}
	root := readSchema(wirejson.NewCursor(wirejson.Value(text)))
	f := fit(&root, false)
	if f.size() > budget {
		f = fit(&root, true)
		f.loss.needsWhole = f.loss.needsWhole || f.size() > budget
	}
	return f.out, f.loss.words(text)
}

// fitter writes a schema for Codex and collects what Codex will remove.
type fitter struct {
	out            []byte
	added          int  // bytes that Codex adds to the schema
	noDescriptions bool // Codex removes the descriptions
	loss           loss
}

func fit(root *schema, noDescriptions bool) *fitter {
	f := &fitter{out: make([]byte, 0, len(root.text)), noDescriptions: noDescriptions, loss: loss{limit: len(root.text)}}
	f.schema(root, "", make([]byte, 0, 64))
	return f
}

// size returns the length of the schema as Codex measures it, or a little more.
func (f *fitter) size() int { return len(f.out) + f.added }

// schema writes s to f.out in a form that Codex accepts. name is the name of the property that has
// the schema, or empty. path is the path of the argument, see [loss].
func (f *fitter) schema(s *schema, name string, path []byte) {
	if s.text.Kind() != wirejson.KindObject {
		f.out = append(f.out, "{}"...)
		f.loss.notASchema(path, s.text)
		return
	}
	typ := s.inferType()
	if len(path) == 0 && typ == "" && !s.isTyped() {
		typ = `"object"`
	}
	typed := typ != "" || s.isTyped()
	kept := func(m member) bool { return m.valid && typed && (!f.noDescriptions || m.keyword != "description") }
	f.loss.ofSchema(s, name, path, kept)

	f.out = append(f.out, '{')
	if typ != "" {
		f.name("type")
		f.out = append(f.out, typ...)
	}
	for _, m := range s.known {
		if kept(m) {
			f.name(m.keyword)
			f.value(m, path)
		}
	}
	if typ == "" {
		typ = string(s.get("type"))
	}
	if strings.Contains(typ, `"array"`) && !s.has("items") {
		f.name("items")
		f.out = append(f.out, "{}"...)
	}
	if strings.Contains(typ, `"object"`) && !s.has("properties") {
		f.added += len(`,"properties":{}`)
	}
	f.out = append(f.out, '}')
}

// value writes the value of a member that is kept.
func (f *fitter) value(m member, path []byte) {
	switch m.shape {
	case shapeSchema:
		if m.keyword == "additionalProperties" && m.value.Kind() == wirejson.KindBool {
			break // Codex keeps a boolean here
		}
		f.child(m, 0, path)
		return
	case shapeSchemaList, shapeSchemaMap:
		f.out = append(f.out, m.value[0])
		for i := range m.children {
			if m.shape == shapeSchemaMap {
				f.name(m.children[i].name)
			} else if i > 0 {
				f.out = append(f.out, ',')
			}
			f.child(m, i, path)
		}
		f.out = append(f.out, m.value[len(m.value)-1])
		return
	case shapeAny:
		f.added += len(`enum[]`) - len(`const`) + exponents(m.value)
	case shapeList:
		for _, v := range m.value.Elements() {
			f.added += exponents(v)
		}
	}
	f.out = append(f.out, m.value...)
}

// exponents returns how many bytes Codex adds when it writes a value: it writes 1e3 as 1e+3.
func exponents(v wirejson.Value) int {
	if v.Kind() == wirejson.KindNumber && bytes.ContainsAny(v, "eE") {
		return 1
	}
	return 0
}

func (f *fitter) child(m member, i int, path []byte) {
	c := &m.children[i]
	f.schema(&c.schema, c.name, appendStep(path, m, c.name, i))
}

// name appends the name of a member to f.out, which ends within an object. If the object has a
// member already, name appends a comma first.
func (f *fitter) name(name string) {
	if f.out[len(f.out)-1] != '{' {
		f.out = append(f.out, ',')
	}
	f.out = append(wirejson.AppendString(f.out, name), ':')
}

package toolschema

import (
	"slices"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

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
	switch v.Kind() {
	case jsontext.KindString:
		return `"string"`
	case jsontext.KindBool:
		return `"boolean"`
	case jsontext.KindNull:
		return `"null"`
	case jsontext.KindArray:
		return `"array"`
	case jsontext.KindObject:
		return `"object"`
	}
	if strings.ContainsAny(string(v), ".eE") {
		return `"number"`
	}
	return `"integer"`
}

// contains reports whether a type, or a list of types, in JSON has a name in it.
func contains(types, name string) bool { return strings.Contains(types, `"`+name+`"`) }

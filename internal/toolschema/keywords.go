package toolschema

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

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
		return !m.value.IsEmptyArray() && all(m.value, func(v jsontext.Value) bool { return slices.ContainsFunc(types, v.Is) })
	case formString, formRef:
		return kind == jsontext.KindString
	case formStrings:
		return kind == jsontext.KindArray && all(m.value, func(v jsontext.Value) bool { return v.Kind() == jsontext.KindString })
	case formBool:
		return kind == jsontext.KindBool
	case formCount:
		_, err := strconv.ParseUint(string(m.value), 10, 64)
		return err == nil
	case formList, formSchemaList:
		return kind == jsontext.KindArray
	case formSchema:
		return kind == jsontext.KindObject || kind == jsontext.KindBool
	case formSchemaMap:
		return kind == jsontext.KindObject
	}
	return false
}

// all reports whether ok holds for a value or, if it is a list, for its elements.
func all(v jsontext.Value, ok func(jsontext.Value) bool) bool {
	if v.Kind() != jsontext.KindArray {
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
	if m.value.Kind() != jsontext.KindString {
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

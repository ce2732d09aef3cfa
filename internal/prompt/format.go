package prompt

import (
	"cmp"
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// Format is the response_format of a request. The zero value is the format text.
type Format struct {
	// schema is the schema of a strict json_schema, which the provider enforces.
	schema json.RawMessage
	// instruction asks for a format that the provider does not enforce, such as json_object.
	instruction string
}

// jsonInstruction asks the model for json_object, since Codex has no setting for it.
const jsonInstruction = "Answer with a single JSON object and nothing else: no other text, no code fence."

// schemaInstruction precedes a schema that is not strict. Codex does not get such a schema as a setting:
// Codex declares every schema strict, and OpenAI refuses strict schemas with optional properties.
const schemaInstruction = "Answer with a single JSON value that is valid by the JSON Schema below, and nothing else: no other text, no code fence."

// Read reads a format. If flat is true, the members of a json_schema are beside its type, as in the
// Responses API. Otherwise they are in the object json_schema.
func (f *Format) Read(v wirejson.Value, flat bool) *field.Error {
	*f = Format{}
	if !v.Given() {
		return nil
	}
	var kind, schema wirejson.Value
	if f := field.Typed(&kind, v, wirejson.Into("json_schema", &schema)); f != nil {
		return f
	}
	switch kind.Text() {
	case "text":
		return nil
	case "json_object":
		f.instruction = jsonInstruction
		return nil
	case "json_schema":
		if flat {
			return f.readSchema(v)
		}
		return f.readSchema(schema).In("json_schema")
	}
	return field.Invalid("must be text, json_object or json_schema").In("type")
}

// ReadSchema reads a schema that does not say whether it is strict. If it has the form of a strict
// schema, the provider enforces it. Otherwise it becomes a part of the instruction.
func (f *Format) ReadSchema(schema wirejson.Value) *field.Error {
	*f = Format{}
	if problem := field.Expect(wirejson.KindObject, schema); problem != nil {
		return problem
	}
	if compact := schema.Compact(); isStrict(schema) {
		f.schema = compact
	} else {
		f.instruction = joinParagraphs(schemaInstruction, string(compact))
	}
	return nil
}

// isStrict reports whether OpenAI accepts a schema as strict: each object in it names its
// properties, requires all of them and allows no others.
func isStrict(v wirejson.Value) bool {
	switch v.Kind() {
	case wirejson.KindArray:
		for _, e := range v.Elements() {
			if !isStrict(e) {
				return false
			}
		}
	case wirejson.KindObject:
		var kind, properties, required, additional wirejson.Value
		v.Pick(wirejson.Into("type", &kind), wirejson.Into("properties", &properties),
			wirejson.Into("required", &required), wirejson.Into("additionalProperties", &additional))
		if (kind.Is("object") || properties.Kind() == wirejson.KindObject) && (string(additional) != "false" || !requiresAll(properties, required)) {
			return false
		}
		for name, member := range v.Members() { // the values of enum, const, default and examples are no schemas
			if text := string(name); text != "enum" && text != "const" && text != "default" && text != "examples" && !isStrict(member) {
				return false
			}
		}
	}
	return true
}

// requiresAll reports whether properties is an object and all its members are required. If there is
// no list of required names, the object must be empty.
func requiresAll(properties, required wirejson.Value) bool {
	if properties.Kind() != wirejson.KindObject || required.Kind() != wirejson.KindArray {
		return properties.Kind() == wirejson.KindObject && string(properties.Compact()) == "{}"
	}
	names := make(map[string]bool)
	for _, name := range required.Elements() {
		if name.Kind() == wirejson.KindString {
			names[name.Text()] = true
		}
	}
	for name := range properties.Members() {
		if !names[string(name)] {
			return false
		}
	}
	return true
}

// readSchema reads a json_schema. Its name is checked, but not used: Codex gives every schema the same name
// and no description. The description of a schema that is not strict becomes a part of the instruction.
func (f *Format) readSchema(v wirejson.Value) *field.Error {
	var name, description, schema, strict wirejson.Value
	problem := field.Object(v, wirejson.Into("name", &name), wirejson.Into("description", &description),
		wirejson.Into("schema", &schema), wirejson.Into("strict", &strict))
	var descriptionText string
	problem = cmp.Or(problem,
		field.NonEmpty(name).In("name"),
		field.Text(&descriptionText, description).In("description"),
		field.Optional(wirejson.KindBool, strict).In("strict"),
		field.Expect(wirejson.KindObject, schema).In("schema"))
	switch {
	case problem != nil:
	case strict.IsTrue():
		f.schema = schema.Compact()
	default:
		f.instruction = joinParagraphs(schemaInstruction, descriptionText, string(schema.Compact()))
	}
	return problem
}

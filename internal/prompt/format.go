package prompt

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Format is the response_format of a request. The zero value is text.
type Format struct {
	jsonObject bool
	schema     json.RawMessage // of json_schema
}

// Read reads a format. flat says that the members of a json_schema stand beside
// the type, as in the Responses API; else they are an object of their own.
func (f *Format) Read(v jsontext.Value, flat bool) *field.Error {
	*f = Format{}
	if !v.Given() {
		return nil
	}
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var kind, schema jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("json_schema", &schema))
	if f := field.Expect(jsontext.KindString, kind); f != nil {
		return f.In("type")
	}
	switch kind.Text() {
	case "text":
		return nil
	case "json_object":
		f.jsonObject = true
		return nil
	case "json_schema":
		if flat {
			return f.readSchema(v)
		}
		return f.readSchema(schema).In("json_schema")
	}
	return field.Invalid("must be text, json_object or json_schema").In("type")
}

// readSchema reads the json_schema of a format. Its name, description and strict
// are checked and without effect: Codex gives every schema one name, and always
// asks for strictness.
func (f *Format) readSchema(v jsontext.Value) *field.Error {
	if f := field.Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var schemaName, description, schema, strict jsontext.Value
	v.Pick(
		jsontext.Into("name", &schemaName),
		jsontext.Into("description", &description),
		jsontext.Into("schema", &schema),
		jsontext.Into("strict", &strict),
	)
	if f := field.NonEmpty(schemaName); f != nil {
		return f.In("name")
	}
	if f := field.Optional(jsontext.KindString, description); f != nil {
		return f.In("description")
	}
	if f := field.Optional(jsontext.KindBool, strict); f != nil {
		return f.In("strict")
	}
	if f := field.Expect(jsontext.KindObject, schema); f != nil {
		return f.In("schema")
	}
	f.schema = schema.Compact()
	return nil
}

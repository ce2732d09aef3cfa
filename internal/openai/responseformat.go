package openai

import (
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// responseFormat is the response_format of a request. The zero value is text.
type responseFormat struct {
	jsonObject bool
	schema     json.RawMessage // of json_schema
}

// read reads a format. flat says that the members of a json_schema stand beside
// the type, as in the Responses API; else they are an object of their own.
func (f *responseFormat) read(v jsontext.Value, flat bool) *fault {
	*f = responseFormat{}
	if !v.Given() {
		return nil
	}
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var kind, schema jsontext.Value
	v.Pick(jsontext.Into("type", &kind), jsontext.Into("json_schema", &schema))
	if f := expect(jsontext.KindString, kind); f != nil {
		return f.in("type")
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
		return f.readSchema(schema).in("json_schema")
	}
	return wrongValue("must be text, json_object or json_schema").in("type")
}

// readSchema reads the json_schema of a format. Its name, description and strict
// are checked and without effect: Codex gives every schema one name, and always
// asks for strictness.
func (f *responseFormat) readSchema(v jsontext.Value) *fault {
	if f := expect(jsontext.KindObject, v); f != nil {
		return f
	}
	var schemaName, description, schema, strict jsontext.Value
	v.Pick(
		jsontext.Into("name", &schemaName),
		jsontext.Into("description", &description),
		jsontext.Into("schema", &schema),
		jsontext.Into("strict", &strict),
	)
	if f := expectFilled(schemaName); f != nil {
		return f.in("name")
	}
	if f := optional(jsontext.KindString, description); f != nil {
		return f.in("description")
	}
	if f := optional(jsontext.KindBool, strict); f != nil {
		return f.in("strict")
	}
	if f := expect(jsontext.KindObject, schema); f != nil {
		return f.in("schema")
	}
	f.schema = schema.Compact()
	return nil
}

package openai

import "encoding/json"

// responseFormat is the response_format of a request. The zero value is text.
type responseFormat struct {
	jsonObject bool
	schema     json.RawMessage // of json_schema
}

func (r *ChatRequest) readResponseFormat(v value) *fault { return r.format.read(v, false) }

// read reads a format. flat says that the members of a json_schema stand beside
// the type, as in the Responses API; else they are an object of their own.
func (f *responseFormat) read(v value, flat bool) *fault {
	*f = responseFormat{}
	if !v.given() {
		return nil
	}
	if f := expect(kindObject, v); f != nil {
		return f
	}
	var kind, schema value
	v.pick(member{"type", &kind}, member{"json_schema", &schema})
	if f := expect(kindString, kind); f != nil {
		return f.in("type")
	}
	switch kind.text() {
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
func (f *responseFormat) readSchema(v value) *fault {
	if f := expect(kindObject, v); f != nil {
		return f
	}
	var schemaName, description, schema, strict value
	v.pick(
		member{"name", &schemaName},
		member{"description", &description},
		member{"schema", &schema},
		member{"strict", &strict},
	)
	if f := expectFilled(schemaName); f != nil {
		return f.in("name")
	}
	if f := optional(kindString, description); f != nil {
		return f.in("description")
	}
	if f := optional(kindBool, strict); f != nil {
		return f.in("strict")
	}
	if f := expect(kindObject, schema); f != nil {
		return f.in("schema")
	}
	f.schema = compact(schema)
	return nil
}

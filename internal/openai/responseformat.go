package openai

import "encoding/json"

// responseFormat is the response_format of a request. The zero value is text.
type responseFormat struct {
	jsonObject bool
	schema     json.RawMessage // of json_schema
}

func (r *ChatRequest) readResponseFormat(v value) *fault {
	r.format = responseFormat{}
	if !v.given() {
		return nil
	}
	if f := expect(kindObject, v); f != nil {
		return f
	}
	var kind, schema value
	for name, v := range v.members() {
		switch string(name) {
		case "type":
			kind = v
		case "json_schema":
			schema = v
		}
	}
	if f := expect(kindString, kind); f != nil {
		return f.in("type")
	}
	switch kind.text() {
	case "text":
		return nil
	case "json_object":
		r.format.jsonObject = true
		return nil
	case "json_schema":
		return r.format.readSchema(schema).in("json_schema")
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
	for name, v := range v.members() {
		switch string(name) {
		case "name":
			schemaName = v
		case "description":
			description = v
		case "schema":
			schema = v
		case "strict":
			strict = v
		}
	}
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

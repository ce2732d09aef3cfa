package prompt

import (
	"cmp"
	"encoding/json"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// Format is the response_format of a request. The zero value is text.
type Format struct {
	// schema is that of a strict json_schema, which the provider enforces.
	schema json.RawMessage
	// instruction tells the model the format that nobody enforces: json_object, and a
	// json_schema that is not strict.
	instruction string
}

// jsonInstruction stands for json_object, for which Codex has no setting.
const jsonInstruction = "Answer with a single JSON object and nothing else: no other text, no code fence."

// schemaInstruction precedes a schema that is not strict. Codex asks for all schemas
// strictly, and OpenAI refuses that for those with optional properties.
const schemaInstruction = "Answer with a single JSON value that is valid by the JSON Schema below, and nothing else: no other text, no code fence."

// Read reads a format. flat says that the members of a json_schema are beside the type,
// as in the Responses API, not in an object of their own.
func (f *Format) Read(v jsontext.Value, flat bool) *field.Error {
	*f = Format{}
	if !v.Given() {
		return nil
	}
	var kind, schema jsontext.Value
	if f := field.Typed(&kind, v, jsontext.Into("json_schema", &schema)); f != nil {
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

// readSchema reads the json_schema of a format. Codex gives every schema the same name
// and no description. The model gets the description of one that is not strict.
func (f *Format) readSchema(v jsontext.Value) *field.Error {
	var name, description, schema, strict jsontext.Value
	problem := field.Object(v, jsontext.Into("name", &name), jsontext.Into("description", &description),
		jsontext.Into("schema", &schema), jsontext.Into("strict", &strict))
	var words string
	problem = cmp.Or(problem,
		field.NonEmpty(name).In("name"),
		field.Text(&words, description).In("description"),
		field.Optional(jsontext.KindBool, strict).In("strict"),
		field.Expect(jsontext.KindObject, schema).In("schema"))
	switch {
	case problem != nil:
	case strict.IsTrue():
		f.schema = schema.Compact()
	default:
		f.instruction = joinParagraphs(joinParagraphs(schemaInstruction, words), string(schema.Compact()))
	}
	return problem
}

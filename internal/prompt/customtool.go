package prompt

import (
	"encoding/json"
	"strings"

	"github.com/caddy-codex/caddy-codex/internal/field"
	"github.com/caddy-codex/caddy-codex/internal/jsontext"
)

// CustomSchema is the schema of the function that stands for a custom tool, which
// takes any text: Codex and the model know functions only.
var CustomSchema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)

// ReadCustomTool reads the name, the description and the format of a custom tool. Its
// grammar is told to the model, which Codex cannot hold to it. flat says that the
// grammar's definition is a member of the format, as in the Responses API; else it is
// in an object of its own.
func ReadCustomTool(v jsontext.Value, flat bool) (t Tool, _ *field.Error) {
	var nameOf, description, format jsontext.Value
	if f := field.Object(v, jsontext.Into("name", &nameOf), jsontext.Into("description", &description), jsontext.Into("format", &format)); f != nil {
		return t, f
	}
	var f *field.Error
	if t.Name, f = ReadToolName(nameOf); f != nil {
		return t, f.In("name")
	}
	var parts []string
	if f := field.Text(&t.Description, description); f != nil {
		return t, f.In("description")
	}
	if description.Given() {
		parts = append(parts, t.Description)
	}
	parts = append(parts, "The text goes into the argument `input`, as it is.")
	grammar, f := readGrammar(format, flat)
	if f != nil {
		return t, f.In("format")
	}
	if grammar != "" {
		parts = append(parts, "It must follow this grammar:\n"+grammar)
	}
	t.Description = strings.Join(parts, "\n\n")
	t.Schema = CustomSchema
	return t, nil
}

// readGrammar reads the format of a custom tool; empty: any text.
func readGrammar(v jsontext.Value, flat bool) (string, *field.Error) {
	if !v.Given() {
		return "", nil
	}
	var kind, grammar jsontext.Value
	if f := field.Object(v, jsontext.Into("type", &kind), jsontext.Into("grammar", &grammar)); f != nil {
		return "", f
	}
	switch {
	case kind.Is("text"):
		return "", nil
	case !kind.Is("grammar"):
		return "", field.Invalid("must be text or grammar").In("type")
	case flat:
		return readDefinition(v)
	}
	if f := field.Expect(jsontext.KindObject, grammar); f != nil {
		return "", f.In("grammar")
	}
	text, f := readDefinition(grammar)
	return text, f.In("grammar")
}

// readDefinition reads the definition of a grammar in an object.
func readDefinition(v jsontext.Value) (string, *field.Error) {
	var definition jsontext.Value
	v.Pick(jsontext.Into("definition", &definition))
	if f := field.Expect(jsontext.KindString, definition); f != nil {
		return "", f.In("definition")
	}
	return definition.Text(), nil
}

// CustomArguments returns the arguments of a custom tool's function for an input, both
// as JSON strings.
func CustomArguments(input jsontext.Value) jsontext.Value {
	arguments := append([]byte(nil), `{"input":`...)
	arguments = append(arguments, input...)
	return jsontext.AppendString(nil, append(arguments, '}'))
}

// CustomInput takes the input out of the arguments of a custom tool's function.
// Arguments of another form are the input themselves: better an odd text than none.
func CustomInput(arguments string) string {
	if input, ok := customInput(arguments); ok {
		return input
	}
	return arguments
}

// customInput reports whether arguments are those of a custom tool's function.
func customInput(arguments string) (input string, ok bool) {
	var call struct {
		Input *string `json:"input"`
	}
	if err := json.Unmarshal([]byte(arguments), &call); err != nil || call.Input == nil {
		return "", false
	}
	return *call.Input, true
}

// WrapCustomInput makes the arguments of a call those of a custom tool's function,
// unless they are that already.
func (c *Call) WrapCustomInput() {
	if _, ok := customInput(c.Arguments.Text()); !ok {
		c.Arguments = CustomArguments(c.Arguments)
	}
}

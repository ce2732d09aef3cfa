// Package apischema checks the API's answers against OpenAI's own description of them, in tests.
//
// schemas.json holds the bodies and events of the Responses API from OpenAI's OpenAPI description
// (version 2.3.0), without the texts, the hosted tools and the members of unions that never occur
// here. The schema false stands for what the API never answers with, such as annotations.
package apischema

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed schemas.json
var document []byte

// schemas holds every schema by its name, events those of stream events by their type.
var schemas, events = compile()

func compile() (byName, byEvent map[string]*jsonschema.Schema) {
	const url = "file:///schemas.json"
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		panic(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(url, root); err != nil {
		panic(err)
	}
	byName, byEvent = make(map[string]*jsonschema.Schema), make(map[string]*jsonschema.Schema)
	for name := range root.(map[string]any)["$defs"].(map[string]any) {
		s := compiler.MustCompile(url + "#/$defs/" + name)
		byName[name] = s
		if kind := s.Properties["type"]; s.Properties["sequence_number"] != nil && kind != nil && kind.Enum != nil {
			byEvent[kind.Enum.Values[0].(string)] = s
		}
	}
	return byName, byEvent
}

// Check checks JSON against the schema with a name, such as "Response".
func Check(name string, data []byte) error {
	s := schemas[name]
	if s == nil {
		return fmt.Errorf("there is no schema %q", name)
	}
	return check(s, data)
}

// CheckEvent checks an event of a stream against the schema for its type.
func CheckEvent(data []byte) error {
	var event struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	s := events[event.Type]
	if s == nil {
		return fmt.Errorf("there is no event %q", event.Type)
	}
	return check(s, data)
}

func check(s *jsonschema.Schema, data []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

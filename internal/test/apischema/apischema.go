// Package apischema holds the answers of this API to OpenAI's own description of
// them, in tests.
//
// schemas.json is what OpenAI's OpenAPI description (version 2.3.0) says of the
// bodies and events of the Responses API, reduced to the shapes that are written
// here: no texts, no hosted tools, and unions without the members that never
// occur.
package apischema

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"unicode/utf8"
)

//go:embed schemas.json
var document []byte

// schema is a JSON schema, as far as the document uses it.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Enum       []any              `json:"enum"`
	AllOf      []*schema          `json:"allOf"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
	Additional json.RawMessage    `json:"additionalProperties"`
	Items      *schema            `json:"items"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
	MinLength  *int               `json:"minLength"`
	MaxLength  *int               `json:"maxLength"`
	MinItems   *int               `json:"minItems"`
	Pattern    string             `json:"pattern"`
	Nullable   bool               `json:"nullable"`
}

var schemas = func() (all map[string]*schema) {
	if err := json.Unmarshal(document, &all); err != nil {
		panic(err)
	}
	return all
}()

// events are the schemas of the events of a stream, by their type.
var events = func() map[string]string {
	types := map[string]string{}
	for name, s := range schemas {
		if kind := s.Properties["type"]; s.Properties["sequence_number"] != nil && kind != nil && len(kind.Enum) == 1 {
			types[kind.Enum[0].(string)] = name
		}
	}
	return types
}()

// Check checks JSON by the schema of a name, such as "Response".
func Check(name string, data []byte) error {
	s := schemas[name]
	if s == nil {
		return fmt.Errorf("there is no schema %q", name)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	return s.check(v, name)
}

// CheckEvent checks an event of a stream by the schema of its type.
func CheckEvent(data []byte) error {
	var event struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return err
	}
	name, ok := events[event.Type]
	if !ok {
		return fmt.Errorf("there is no event %q", event.Type)
	}
	return Check(name, data)
}

func (s *schema) check(v any, at string) error {
	if s.Ref != "" {
		if target := schemas[s.Ref]; target == nil {
			return fmt.Errorf("%s: no schema %q", at, s.Ref)
		} else if err := target.check(v, at); err != nil {
			return err
		}
	}
	if v == nil && s.Nullable {
		return nil
	}
	for _, part := range s.AllOf {
		if err := part.check(v, at); err != nil {
			return err
		}
	}
	for _, union := range [][]*schema{s.AnyOf, s.OneOf} {
		if err := checkUnion(union, v, at); err != nil {
			return err
		}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %v is none of %v", at, v, s.Enum)
	}
	return s.checkType(v, at)
}

func checkUnion(union []*schema, v any, at string) error {
	if len(union) == 0 {
		return nil
	}
	var all []error
	for _, member := range union {
		err := member.check(v, at)
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return fmt.Errorf("%s is none of its union: %w", at, errors.Join(all...))
}

func (s *schema) checkType(v any, at string) error {
	wrong := fmt.Errorf("%s: %.100v is not %s", at, v, s.Type)
	switch s.Type {
	case "":
		return nil
	case "object":
		object, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		return s.checkObject(object, at)
	case "array":
		array, ok := v.([]any)
		if !ok || s.MinItems != nil && len(array) < *s.MinItems {
			return wrong
		}
		for i, element := range array {
			if s.Items == nil {
				break
			}
			if err := s.Items.check(element, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	case "string":
		text, ok := v.(string)
		if !ok {
			return wrong
		}
		return s.checkString(text, at)
	case "integer", "number":
		number, ok := v.(float64)
		if !ok || s.Type == "integer" && number != math.Trunc(number) ||
			s.Minimum != nil && number < *s.Minimum || s.Maximum != nil && number > *s.Maximum {
			return wrong
		}
		return nil
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong
		}
		return nil
	case "null":
		if v != nil {
			return wrong
		}
		return nil
	}
	return fmt.Errorf("%s: unknown type %q in the schema", at, s.Type)
}

func (s *schema) checkObject(object map[string]any, at string) error {
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			return fmt.Errorf("%s lacks %s", at, name)
		}
	}
	var additional *schema
	if len(s.Additional) > 0 && s.Additional[0] == '{' {
		if err := json.Unmarshal(s.Additional, &additional); err != nil {
			return err
		}
	}
	for name, member := range object {
		property := s.Properties[name]
		if property == nil {
			property = additional
		}
		if property == nil {
			continue
		}
		if err := property.check(member, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkString(text, at string) error {
	length := utf8.RuneCountInString(text)
	if s.MinLength != nil && length < *s.MinLength || s.MaxLength != nil && length > *s.MaxLength {
		return fmt.Errorf("%s: %d characters are too few or too many", at, length)
	}
	if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text) {
		return fmt.Errorf("%s: %q does not match %s", at, text, s.Pattern)
	}
	return nil
}

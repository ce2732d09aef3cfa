package scriptedmodel

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds the nesting of made-up values: schemas may refer to
// themselves.
const maxDepth = 8

// schema is a JSON schema, as far as values are made up from it.
type schema struct {
	Type       schemaType         `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Enum       []json.RawMessage  `json:"enum"`
	Const      json.RawMessage    `json:"const"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	AllOf      []*schema          `json:"allOf"`
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
	Format     string             `json:"format"`
	Minimum    *float64           `json:"minimum"`
}

// schemaType is the first type other than null that a schema names: it may name
// one or several.
type schemaType string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *schemaType) UnmarshalJSON(data []byte) error {
	var names []string
	if isString(data) {
		names = make([]string, 1)
		if err := json.Unmarshal(data, &names[0]); err != nil {
			return err
		}
	} else if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	for _, name := range names {
		if *t = schemaType(name); name != "null" {
			break
		}
	}
	return nil
}

// fill makes up a value that fits the JSON schema and has to do with the text.
// An object gets its required members, or its first one by name if none is. A
// schema that cannot be read is filled with an empty object.
func fill(jsonSchema json.RawMessage, text string) json.RawMessage {
	var s schema
	if err := json.Unmarshal(jsonSchema, &s); err != nil {
		return json.RawMessage(`{}`)
	}
	f := filler{defs: s.Defs, text: text}
	value, err := json.Marshal(f.value(&s, "", 0))
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return value
}

// filler makes up values about one text.
type filler struct {
	defs map[string]*schema
	text string
}

func (f filler) value(s *schema, name string, depth int) any {
	if s == nil || depth > maxDepth {
		return nil
	}
	switch {
	case s.Ref != "":
		return f.value(f.defs[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]], name, depth+1)
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return f.choice(s.Enum)
	}
	for _, alternatives := range [][]*schema{s.AnyOf, s.OneOf, s.AllOf} {
		for _, a := range alternatives {
			if a != nil && a.Type != "null" {
				return f.value(a, name, depth+1)
			}
		}
	}
	switch {
	case s.Type == "object" || s.Type == "" && s.Properties != nil:
		return f.object(s, depth)
	case s.Type == "array":
		return f.array(s, name, depth)
	case s.Type == "integer" || s.Type == "number":
		return f.number(s)
	case s.Type == "boolean":
		return true
	case s.Type == "null":
		return nil
	}
	return f.words(name, s.Format)
}

// choice returns the alternative that the text mentions, or the first.
func (f filler) choice(enum []json.RawMessage) json.RawMessage {
	lower := strings.ToLower(f.text)
	for _, e := range enum {
		if word := strings.ToLower(strings.Trim(string(e), `"`)); word != "" && strings.Contains(lower, word) {
			return e
		}
	}
	return enum[0]
}

func (f filler) object(s *schema, depth int) map[string]any {
	names := s.Required
	if len(names) == 0 && depth == 0 {
		for name := range s.Properties {
			names = append(names, name)
		}
		slices.Sort(names)
		names = names[:min(1, len(names))]
	}
	object := map[string]any{}
	for _, name := range names {
		object[name] = f.value(s.Properties[name], name, depth+1)
	}
	return object
}

// array has one value, or the words of the subject if strings are asked for.
func (f filler) array(s *schema, name string, depth int) []any {
	const maxWords = 3
	if s.Items == nil {
		return []any{subject(f.text)}
	}
	if s.Items.Type != "string" || len(s.Items.Enum) > 0 {
		return []any{f.value(s.Items, name, depth+1)}
	}
	var words []any
	for _, word := range strings.Fields(subject(f.text)) {
		if len(words) < maxWords {
			words = append(words, word)
		}
	}
	return words
}

var numberPattern = regexp.MustCompile(`-?\d+(\.\d+)?`)

// number returns the first number in the text if it will do, else the smallest
// allowed one.
func (f filler) number(s *schema) any {
	n := 1.0
	if found, err := strconv.ParseFloat(numberPattern.FindString(f.text), 64); err == nil && math.Abs(found) < 1e9 {
		n = found
	}
	if s.Minimum != nil {
		n = max(n, *s.Minimum)
	}
	if s.Type == "integer" {
		return int64(n)
	}
	return n
}

var (
	urlPattern  = regexp.MustCompile(`https?://[^\s"'<>]+`)
	pathPattern = regexp.MustCompile(`[\w./-]*\w[./]\w[\w./-]*`)
)

// words makes up a text for a member of this name.
func (f filler) words(name, format string) string {
	name = strings.ToLower(name)
	about := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
	}
	switch {
	case about("url") || format == "uri":
		return orElse(urlPattern.FindString(f.text), "https://example.com/")
	case about("path", "file"):
		return orElse(pathPattern.FindString(f.text), "notes/demo.md")
	case about("content", "body"):
		return orElse(content(f.text), "Written by the demo model.")
	case about("email") || format == "email":
		return "demo@example.com"
	case about("timezone"):
		return "UTC"
	case about("date") || format == "date":
		return "2030-01-01"
	}
	return orElse(subject(f.text), "demo")
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

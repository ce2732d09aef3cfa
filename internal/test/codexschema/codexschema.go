// Package codexschema does to the schema of a tool what Codex does, so that tests without Codex
// know what a model is offered. An end-to-end test holds it to the real program.
package codexschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Budget is the length, in bytes, of the longest schema that Codex does not shorten.
const Budget = 5000

// maxDepth is how deep schemas may be nested in one that is shortened.
const maxDepth = 3

// Schema is a schema as [Decode] decodes an object.
type Schema = map[string]any

// Offered returns the schema that a model is offered for one that Codex gets, or Codex's refusal.
func Offered(text []byte) (Schema, error) {
	given, err := Decode(text)
	if err != nil {
		return nil, err
	}
	var c checker
	root := c.sanitize(given)
	if c.problem != nil {
		return nil, c.problem
	}
	if root["type"] == "null" {
		return nil, errors.New("the arguments cannot be null")
	}
	prune(root)
	return shorten(root), nil
}

// Decode decodes JSON, with its numbers as Codex spells them.
func Decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err != nil {
		return nil, err
	}
	return respell(v), nil
}

func respell(v any) any {
	switch v := v.(type) {
	case json.Number:
		digits, exponent, ok := strings.Cut(strings.ToLower(v.String()), "e")
		switch {
		case ok && !strings.ContainsAny(exponent, "+-"):
			return json.Number(digits + "e+" + exponent)
		case v == "-0":
			return json.Number("0")
		}
		return json.Number(strings.ToLower(v.String()))
	case []any:
		for i := range v {
			v[i] = respell(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = respell(v[name])
		}
	}
	return v
}

// The keywords that hold schemas: in objects, in lists, and one each.
var (
	tables       = []string{"$defs", "definitions"}
	compositions = []string{"anyOf", "oneOf", "allOf"}
	single       = []string{"items", "additionalProperties"}
)

var types = []string{"string", "number", "boolean", "integer", "object", "array", "null"}

// checker remembers the first keyword of a form that Codex refuses.
type checker struct{ problem error }

func (c *checker) refuse(keyword string, value any) {
	if c.problem == nil {
		c.problem = fmt.Errorf("%s cannot be %v", keyword, value)
	}
}

// sanitize returns what Codex keeps of a schema, whatever its length.
func (c *checker) sanitize(given any) Schema {
	switch given := given.(type) {
	case bool:
		return Schema{"type": "string"}
	case map[string]any:
		return c.object(given)
	}
	c.refuse("a schema", given)
	return Schema{}
}

func (c *checker) object(given Schema) Schema {
	kept := Schema{}
	for keyword, value := range given {
		if value != nil {
			c.keep(kept, keyword, value)
		}
	}
	if v, ok := given["const"]; ok {
		kept["enum"] = []any{v}
	}
	found := typeNames(given["type"])
	if len(found) == 0 && (has(given, "$ref") || has(given, compositions...)) {
		return kept
	}
	if len(found) == 0 {
		if found = inferred(given); len(found) == 0 {
			return Schema{}
		}
	}
	kept["type"] = found
	if len(found) == 1 {
		kept["type"] = found[0]
	}
	if slices.Contains(found, any("object")) && !has(given, "properties") {
		kept["properties"] = Schema{}
	}
	if slices.Contains(found, any("array")) && !has(given, "items") {
		kept["items"] = Schema{"type": "string"}
	}
	return kept
}

func (c *checker) keep(kept Schema, keyword string, value any) {
	ok := true
	switch keyword {
	case "$ref", "description":
		_, ok = value.(string)
	case "encrypted":
		_, ok = value.(bool)
	case "minItems":
		n, isNumber := value.(json.Number)
		ok = isNumber && !strings.ContainsAny(n.String(), "-.eE")
	case "enum":
		_, ok = value.([]any)
	case "required":
		var list []any
		list, ok = value.([]any)
		ok = ok && !slices.ContainsFunc(list, func(v any) bool { _, isText := v.(string); return !isText })
	case "properties":
		value, ok = c.schemas(value)
	case "$defs", "definitions":
		if value, ok = c.schemas(value); !ok {
			return
		}
	case "anyOf", "oneOf", "allOf":
		value, ok = c.list(value)
	case "items":
		value = c.sanitize(value)
	case "additionalProperties":
		if _, isBool := value.(bool); !isBool {
			value = c.sanitize(value)
		}
	default:
		return
	}
	if !ok {
		c.refuse(keyword, value)
	}
	kept[keyword] = value
}

func (c *checker) schemas(value any) (any, bool) {
	given, ok := value.(map[string]any)
	kept := Schema{}
	for name, v := range given {
		kept[name] = c.sanitize(v)
	}
	return kept, ok
}

func (c *checker) list(value any) (any, bool) {
	given, ok := value.([]any)
	kept := make([]any, len(given))
	for i, v := range given {
		kept[i] = c.sanitize(v)
	}
	return kept, ok
}

func has(s Schema, keywords ...string) bool {
	return slices.ContainsFunc(keywords, func(k string) bool { _, ok := s[k]; return ok })
}

func typeNames(value any) (names []any) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		if name, ok := v.(string); ok && slices.Contains(types, name) {
			names = append(names, name)
		}
	}
	return names
}

func inferred(s Schema) []any {
	switch {
	case has(s, "properties", "required", "additionalProperties"):
		return []any{"object"}
	case has(s, "items", "prefixItems"):
		return []any{"array"}
	case has(s, "const", "enum", "format"):
		return []any{"string"}
	case has(s, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
		return []any{"number"}
	}
	return nil
}

// eachSchema calls visit for the schemas within a schema and puts what it returns in their places.
func eachSchema(s Schema, withTables bool, visit func(Schema) Schema) {
	maps := []string{"properties"}
	if withTables {
		maps = append(maps, tables...)
	}
	for _, keyword := range maps {
		if m, ok := s[keyword].(Schema); ok {
			for name, v := range m {
				m[name] = visit(v.(Schema))
			}
		}
	}
	for _, keyword := range compositions {
		if list, ok := s[keyword].([]any); ok {
			for i, v := range list {
				list[i] = visit(v.(Schema))
			}
		}
	}
	for _, keyword := range single {
		if v, ok := s[keyword].(Schema); ok {
			s[keyword] = visit(v)
		}
	}
}

// definition is the table and the name of the definition to which a schema refers.
func definition(s Schema) (table, name string, ok bool) {
	ref, _ := s["$ref"].(string)
	fragment, isLocal := strings.CutPrefix(ref, "#/")
	fragment, err := url.PathUnescape(fragment)
	parts := strings.Split(fragment, "/")
	if !isLocal || err != nil || len(parts) < 2 || !slices.Contains(tables, parts[0]) {
		return "", "", false
	}
	return parts[0], strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[1]), true
}

func prune(root Schema) {
	used := map[[2]string]bool{}
	var visit func(s Schema, withTables bool)
	visit = func(s Schema, withTables bool) {
		if table, name, ok := definition(s); ok && !used[[2]string{table, name}] {
			used[[2]string{table, name}] = true
			if m, ok := root[table].(Schema); ok {
				if target, ok := m[name].(Schema); ok {
					visit(target, true)
				}
			}
		}
		eachSchema(s, withTables, func(s Schema) Schema { visit(s, withTables); return s })
	}
	visit(root, false)
	for _, table := range tables {
		m, ok := root[table].(Schema)
		for name := range m {
			if !used[[2]string{table, name}] {
				delete(m, name)
			}
		}
		if ok && len(m) == 0 {
			delete(root, table)
		}
	}
}

// shorten drops more and more of a schema that is too long.
func shorten(root Schema) Schema {
	for _, pass := range []func(Schema) Schema{dropDescriptions, dropDefinitions, collapse(0), dropCompositions} {
		if size(root) <= Budget {
			break
		}
		root = pass(root)
	}
	return root
}

func size(s Schema) int {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // it was decoded from JSON
	}
	// Codex escapes neither, and adds no line break.
	return b.Len() - 1 - 3*(strings.Count(b.String(), `\u2028`)+strings.Count(b.String(), `\u2029`))
}

func dropDescriptions(s Schema) Schema {
	delete(s, "description")
	eachSchema(s, true, dropDescriptions)
	return s
}

func dropDefinitions(s Schema) Schema {
	if _, _, ok := definition(s); ok {
		s = Schema{}
	}
	eachSchema(s, false, dropReferences)
	for _, table := range tables {
		delete(s, table)
	}
	return s
}

func dropReferences(s Schema) Schema {
	if _, _, ok := definition(s); ok {
		return Schema{}
	}
	eachSchema(s, false, dropReferences)
	return s
}

func collapse(depth int) func(Schema) Schema {
	return func(s Schema) Schema {
		if depth >= maxDepth && (has(s, "items", "properties", "additionalProperties", "$ref") || has(s, compositions...)) {
			return Schema{}
		}
		eachSchema(s, false, collapse(depth+1))
		return s
	}
}

func dropCompositions(s Schema) Schema {
	if has(s, compositions...) {
		return Schema{}
	}
	eachSchema(s, false, dropCompositions)
	return s
}

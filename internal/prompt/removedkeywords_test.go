package prompt

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

type generator struct {
	*rand.Rand
	tame bool // only what Codex keeps
	long int  // of a description, in words
}

var (
	someNames  = []string{"a", "b c", "Limit", "$x", "", "a.b", "ünï", "properties", "items"}
	someValues = []string{`1`, `0`, `-2.50`, `1e3`, `"x"`, `"<a>\u00e9\n"`, `null`, `true`, `false`, `[]`, `[1,"a"]`, `{}`, `{"a":[null]}`}
	someTypes  = []string{`"string"`, `"integer"`, `"number"`, `"boolean"`, `"null"`, `"object"`, `"array"`, `["string","null"]`, `["array","object"]`, `"any"`, `[]`, `5`}
	dropped    = []string{"title", "default", "examples", "pattern", "format", "minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "uniqueItems", "nullable", "x-own", "a b", "prefixItems", "if", "not", "dependentRequired"}
)

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

func (g generator) object(n int, key func(int) string, value func() string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(append(wirejson.AppendString(nil, key(i)), ':'))
		b.WriteString(value())
	}
	b.WriteByte('}')
	return b.String()
}

func (g generator) list(n int, value func() string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = value()
	}
	return "[" + strings.Join(all, ",") + "]"
}

// schema makes up a schema with so many levels at most.
func (g generator) schema(depth int) string {
	switch {
	case g.tame && g.IntN(6) == 0:
		return `{"type":"string","description":"A text."}`
	case !g.tame && g.IntN(12) == 0:
		return pick(g, []string{"true", "false", "{}"})
	}
	names := slices.Sorted(maps.Keys(keywordShapes))
	g.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:g.IntN(5)]
	if !g.tame && g.IntN(4) > 0 {
		names = append(names, pick(g, dropped))
	}
	if g.tame || g.IntN(4) > 0 {
		names = append(names, "type")
	}
	used := map[string]bool{}
	kept := names[:0]
	for _, name := range names {
		if !used[name] && (!g.tame || keywordShapes[name] != shapeIrrelevant) {
			kept = append(kept, name)
		}
		used[name] = true
	}
	i := -1
	return g.object(len(kept), func(at int) string { i = at; return kept[at] }, func() string { return g.value(kept[i], depth) })
}

func (g generator) value(keyword string, depth int) string {
	child := func() string {
		if depth == 0 {
			return "{}"
		}
		return g.schema(depth - 1)
	}
	if !g.tame && g.IntN(30) == 0 {
		return pick(g, someValues) // of a wrong shape, as a rule
	}
	switch keywordShapes[keyword] {
	case shapeTypes:
		if g.tame {
			return pick(g, someTypes[:5])
		}
		return pick(g, someTypes)
	case shapeString, shapeIrrelevant:
		return pick(g, []string{`"x"`, `"What it is.` + strings.Repeat(" More.", g.long) + `"`, `""`})
	case shapeRef:
		if g.tame {
			return `"#/$defs/a"`
		}
		return pick(g, []string{`"#"`, `"#/$defs/a"`, `"#/definitions/b%20c"`, `"#/properties/a"`, `"#x"`})
	case shapeStrings:
		return g.list(g.IntN(3), func() string { return `"` + pick(g, []string{"a", "Limit"}) + `"` })
	case shapeBool:
		return "true"
	case shapeCount:
		if g.tame {
			return "2"
		}
		return pick(g, []string{"0", "3", "1.0"})
	case shapeList:
		return g.list(g.IntN(4), func() string {
			if g.IntN(2) == 0 {
				return `"` + strings.Repeat("value ", g.long) + `"`
			}
			return pick(g, someValues)
		})
	case shapeSchema:
		return child()
	case shapeSchemaList:
		return g.list(g.IntN(3), child)
	case shapeSchemaMap:
		g.Shuffle(len(someNames), func(i, j int) { someNames[i], someNames[j] = someNames[j], someNames[i] })
		names := append([]string(nil), someNames[:g.IntN(4)]...)
		return g.object(len(names), func(i int) string { return names[i] }, child)
	}
	return pick(g, someValues)
}

// TestNothingIsLost makes up schemas: what the model sees and what it is told are
// together what the client wrote.
func TestNothingIsLost(t *testing.T) {
	whole, told, unchanged, large := 0, 0, 0, 0
	random := draw.Random(t)
	for range draw.Cases(600, 4000) {
		seed := random.Uint64()
		g := generator{rand.New(rand.NewPCG(seed, 0)), seed%4 == 0, int(seed % 100)}
		if seed%8 == 1 {
			g.long *= 20 // seldom large otherwise
		}
		schema := fmt.Sprintf(`{"type":"object","properties":{"a":%s,"b":%s},"$defs":{"a":%s},"definitions":{"b c":%s}}`,
			g.schema(4), g.schema(2), g.schema(2), g.schema(1))
		fitted, words := fitSchema([]byte(schema))
		if err := missing([]byte(schema), fitted, words); err != nil {
			t.Fatalf("seed %d: %v\n%s\n%s\n%s", seed, err, schema, fitted, words)
		}
		if again, _ := fitSchema(fitted); string(again) != string(fitted) && len(fitted) < schemaBudget {
			t.Fatalf("seed %d: %s becomes %s", seed, fitted, again)
		}
		switch {
		case len(fitted) > schemaBudget:
			large++
		case strings.HasPrefix(words, wholeHeader):
			whole++
		case words != "":
			told++
		case string(fitted) == schema:
			unchanged++
		}
	}
	if whole == 0 || told == 0 || unchanged == 0 || large == 0 {
		t.Errorf("%d whole, %d in lines, %d unchanged, %d large: the schemas have no variety", whole, told, unchanged, large)
	}
}

// FuzzFit: any schema that a request can have.
func FuzzFit(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"const":5}}}`))
	f.Add([]byte(`{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/A"},false]}},"$defs":{"A":{"items":[]}}}`))
	f.Add([]byte(`{"type":"object","type":"null","required":true,"enum":null,"const":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, syntax := wirejson.Parse(data)
		if syntax != nil || v.Kind() != wirejson.KindObject {
			return
		}
		schema := v.Compact()
		fitted, words := fitSchema(schema)
		if !json.Valid(fitted) {
			t.Fatalf("not JSON: %s", fitted)
		}
		if len(words) > len(wholeHeader)+len(schema) {
			t.Fatalf("%d bytes of words for a schema of %d", len(words), len(schema))
		}
		if again, more := fitSchema(schema); string(again) != string(fitted) || more != words {
			t.Fatal("it depends on more than the schema")
		}
		if hasTwins(v) || isNull(fitted) {
			return // whose meaning is for the reader, and which Codex refuses
		}
		if err := missing(schema, fitted, words); err != nil {
			t.Fatalf("%v\n%s\n%s", err, fitted, words)
		}
	})
}

// hasTwins reports whether two members of an object have one name.
func hasTwins(v wirejson.Value) bool {
	switch v.Kind() {
	case wirejson.KindObject:
		seen := map[string]bool{}
		for name, v := range v.Members() {
			if seen[string(name)] || hasTwins(v) {
				return true
			}
			seen[string(name)] = true
		}
	case wirejson.KindArray:
		for _, v := range v.Elements() {
			if hasTwins(v) {
				return true
			}
		}
	}
	return false
}

// isNull reports whether the arguments of a tool can be null alone.
func isNull(fitted []byte) bool {
	var root struct{ Type any }
	if err := json.Unmarshal(fitted, &root); err != nil {
		return true // a number beyond those of Go
	}
	list, ok := root.Type.([]any)
	return root.Type == "null" || ok && len(list) == 1 && list[0] == "null"
}

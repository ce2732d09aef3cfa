package demomodel

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
)

// schema is what is read of a JSON schema: what a strict one may have.
type schema struct {
	Type             any
	Enum             []any
	Const            any
	Ref              string             `json:"$ref"`
	Defs             map[string]*schema `json:"$defs"`
	AnyOf            []*schema
	Properties       map[string]*schema
	Required         []string
	Items            *schema
	MinItems         int
	MaxItems         *int
	Format           string
	Pattern          string
	Minimum          *float64
	Maximum          *float64
	ExclusiveMinimum *float64
	ExclusiveMaximum *float64
	MultipleOf       float64
}

// kind returns the type of values; of several, the first that is not null.
func (s *schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
		return "null"
	}
	switch {
	case len(s.Properties)+len(s.Required) > 0:
		return "object"
	case s.Items != nil:
		return "array"
	}
	return ""
}

// filler fills a schema with what the question has.
type filler struct {
	q            question
	root         *schema
	names        []string  // in the question, that are left
	numbers      []float64 // the same
	requiredOnly bool
	values       int // so far
}

func newFiller(q question, root *schema) *filler {
	f := &filler{q: q, root: root, names: namesIn(q.text)}
	for _, text := range numberIn.FindAllString(ends(q.text), 20) {
		f.numbers = append(f.numbers, float(text))
	}
	return f
}

const (
	// maxNested is how deep members that are not required are filled in, and maxSchemaDepth the end of all.
	maxNested      = 4
	maxSchemaDepth = 30
	// maxValues bounds the values of an answer.
	maxValues = 2000
)

var denied = regexp.MustCompile(`\b(no|not|never|false)\b`)

// value returns a value for a schema with this name. One whose depth ends it may not fit.
func (f *filler) value(s *schema, name string, depth int) any {
	f.values++
	if s = f.resolve(s); s == nil || depth > maxSchemaDepth || f.values > maxValues {
		return nil
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return f.chosen(s.Enum)
	case len(s.AnyOf) > 0 && len(s.Properties) == 0:
		return f.value(best(s.AnyOf, depth), name, depth+1)
	}
	switch s.kind() {
	case "object":
		return f.object(s, depth)
	case "array":
		return f.array(s, name, depth)
	case "integer":
		return int64(f.number(s, true))
	case "number":
		return f.number(s, false)
	case "boolean":
		return !denied.MatchString(f.q.short)
	case "null":
		return nil
	}
	return f.text(s, name)
}

// resolve follows references within the document.
func (f *filler) resolve(s *schema) *schema {
	for range maxSchemaDepth {
		switch {
		case s == nil || s.Ref == "":
			return s
		case s.Ref == "#":
			return f.root
		}
		s = f.root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	return nil
}

// best returns the first choice that is not null. At some depth it is null, if that is a choice, so that
// a tree ends.
func best(choices []*schema, depth int) *schema {
	isNull := func(s *schema) bool { return s != nil && s.Ref == "" && s.kind() == "null" }
	i := slices.IndexFunc(choices, func(s *schema) bool { return isNull(s) == (depth > maxNested) })
	return choices[max(i, 0)]
}

// chosen returns the value of an enum that the question names, or the first that is not null.
func (f *filler) chosen(values []any) any {
	for _, value := range values {
		if text, ok := value.(string); ok && text != "" && wordStart(f.q.short, strings.ToLower(text)) {
			return value
		}
	}
	if values[0] == nil && len(values) > 1 {
		return values[1]
	}
	return values[0]
}

func (f *filler) object(s *schema, depth int) any {
	members := make(map[string]any)
	names := slices.Clone(s.Required)
	if !f.requiredOnly && depth < maxNested {
		for name := range s.Properties {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		slices.Sort(names[len(s.Required):])
	}
	for _, name := range names {
		property := s.Properties[name]
		if property == nil {
			property = &schema{Type: "string"}
		}
		members[name] = f.value(property, name, depth+1)
	}
	return members
}

func (f *filler) array(s *schema, name string, depth int) any {
	list, wanted := []any{}, 2
	if depth > maxNested || s.Items == nil {
		wanted = 0
	}
	if s.MaxItems != nil {
		wanted = min(wanted, *s.MaxItems)
	}
	for n := range min(max(wanted, s.MinItems), maxValues) {
		item := schema{Type: "string"}
		if resolved := f.resolve(s.Items); resolved != nil {
			item = *resolved
		}
		if len(item.Enum) > 0 {
			item.Enum = []any{item.Enum[n%len(item.Enum)]}
		}
		value := f.value(&item, strings.TrimSuffix(name, "s"), depth+1)
		if text, isText := value.(string); isText && item.Format+item.Pattern == "" && len(item.Enum) == 0 && slices.Contains(list, value) {
			value = text + " " + number(float64(n+1))
		}
		list = append(list, value)
	}
	return list
}

// number returns a number of the question that fits or, if none does, one in the range.
func (f *filler) number(s *schema, whole bool) float64 {
	bound := func(p *float64, otherwise float64) float64 {
		if p == nil {
			return otherwise
		}
		return *p
	}
	below, above := bound(s.ExclusiveMinimum, math.Inf(-1)), bound(s.ExclusiveMaximum, math.Inf(1))
	low, high := math.Max(below, bound(s.Minimum, below)), math.Min(above, bound(s.Maximum, above))
	step := s.MultipleOf
	if whole && step == 0 {
		step = 1
	}
	fits := func(n float64) bool {
		return n >= low && n <= high && n > below && n < above && (step == 0 || math.Abs(n/step-math.Round(n/step)) < 1e-9)
	}
	if i := slices.IndexFunc(f.numbers, fits); i >= 0 {
		n := f.numbers[i]
		f.numbers = slices.Delete(f.numbers, i, i+1)
		return n
	}
	unit := step
	if unit == 0 {
		unit = math.Min(1, (high-low)/2)
	}
	lowest, highest := math.Ceil(low/unit)*unit, math.Floor(high/unit)*unit
	for _, n := range []float64{unit, lowest, lowest + unit, highest, highest - unit} {
		if !math.IsInf(n, 0) && fits(n) {
			return n
		}
	}
	return 0
}

func decoded(document json.RawMessage) *schema {
	s := new(schema)
	_ = json.Unmarshal(document, s) // what cannot be read has no members
	return s
}

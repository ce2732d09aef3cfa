package demomodel

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// schema is what is read of a JSON schema.
type schema struct {
	Type             any
	Enum             []any
	Const            any
	Ref              string             `json:"$ref"`
	Defs             map[string]*schema `json:"$defs"`
	Definitions      map[string]*schema
	AnyOf            []*schema
	OneOf            []*schema
	AllOf            []*schema
	Properties       map[string]*schema
	Required         []string
	Items            *schema
	MinItems         int
	MaxItems         *int
	UniqueItems      bool
	MinLength        int
	MaxLength        *int
	Format           string
	Pattern          string
	Minimum          *float64
	Maximum          *float64
	ExclusiveMinimum *float64
	ExclusiveMaximum *float64
	MultipleOf       float64
}

// UnmarshalJSON implements [json.Unmarshaler]. A schema may be a boolean, and have members that
// are not as expected, which are left out.
func (s *schema) UnmarshalJSON(data []byte) error {
	type fields schema
	_ = json.Unmarshal(data, (*fields)(s))
	return nil
}

func (q question) wantsJSON() bool {
	return q.req.Text.Format.Type == "json_schema" || q.req.Text.Format.Type == "json_object"
}

// jsonAnswer answers with JSON, which fits the schema if there is one.
func jsonAnswer(q question) string {
	var s schema
	_ = json.Unmarshal(q.req.Text.Format.Schema, &s) // what cannot be read has no members
	if q.req.Text.Format.Type == "json_object" || s.empty() {
		if answer, ok := housekeeping(q); ok && json.Valid([]byte(answer)) {
			return answer
		}
		return encoded(map[string]any{"answer": q.brief(), "model": "demo"})
	}
	return encoded(newFiller(q, &s).value(&s, "answer", 0))
}

// arguments returns the arguments of a call for a subject, an object.
func arguments(parameters json.RawMessage, q question, subject string) string {
	s := schema{}
	_ = json.Unmarshal(parameters, &s) // what cannot be read has no members
	s.Type = "object"
	f := newFiller(q, &s)
	f.requiredOnly = true
	f.names = nil
	if subject != "" {
		f.names = []string{subject}
	}
	return encoded(f.value(&s, "", 0))
}

func encoded(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // JSON's own types alone
	return strings.TrimSpace(b.String())
}

// brief returns an answer of one line.
func (q question) brief() string {
	if text, ok := sum(q); ok {
		return strings.ReplaceAll(text, "**", "")
	}
	topic := q.topic()
	if topic == "" {
		topic = "nothing"
	}
	return "The demo model's answer about " + topic + "."
}

func (s *schema) empty() bool {
	return s.Ref == "" && len(s.Properties)+len(s.AnyOf)+len(s.OneOf)+len(s.AllOf)+len(s.Enum)+len(s.Required) == 0 && s.Const == nil &&
		(s.kind() == "object" || s.kind() == "")
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
	case len(s.Properties) > 0 || len(s.Required) > 0:
		return "object"
	case s.Items != nil:
		return "array"
	case s.Minimum != nil || s.Maximum != nil:
		return "number"
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

// value returns a value for a schema with this name. One whose depth ends it may not fit.
func (f *filler) value(s *schema, name string, depth int) any {
	f.values++
	if s = f.resolve(s); s == nil || depth > maxSchemaDepth || f.values > maxValues {
		return nil
	}
	if s.Const != nil {
		return s.Const
	}
	if len(s.Enum) > 0 {
		return f.chosen(s.Enum)
	}
	for _, choices := range [][]*schema{s.AnyOf, s.OneOf} {
		if len(choices) > 0 && len(s.Properties) == 0 {
			return f.value(f.best(choices, depth), name, depth+1)
		}
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
		return !regexp.MustCompile(`\b(no|not|never|false)\b`).MatchString(f.q.short)
	case "null":
		return nil
	}
	return f.text(s, name)
}

// resolve follows references, and joins what all parts of a schema ask for.
func (f *filler) resolve(s *schema) *schema {
	for range maxSchemaDepth {
		if s == nil || s.Ref == "" {
			break
		}
		s = f.referred(s.Ref)
	}
	if s == nil || len(s.AllOf) == 0 {
		return s
	}
	whole := *s
	whole.AllOf, whole.Properties = nil, make(map[string]*schema)
	add := func(part *schema) {
		for name, p := range part.Properties {
			whole.Properties[name] = p
		}
		whole.Required = append(whole.Required, part.Required...)
		if whole.Type == nil {
			whole.Type = part.Type
		}
		if len(whole.Enum) == 0 {
			whole.Enum = part.Enum
		}
	}
	add(&schema{Properties: s.Properties})
	for _, part := range s.AllOf {
		if part.Ref != "" {
			part = f.referred(part.Ref)
		}
		if part != nil {
			add(part)
		}
	}
	return &whole
}

// referred returns the schema that a reference within the document names, or nil.
func (f *filler) referred(ref string) *schema {
	if ref == "#" {
		return f.root
	}
	place, name := ref, ""
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		place, name = ref[:i], ref[i+1:]
	}
	switch place {
	case "#/$defs":
		return f.root.Defs[name]
	case "#/definitions":
		return f.root.Definitions[name]
	}
	return nil
}

// best returns the choice to fill in: one that the question names, else the first that is not null. At some
// depth it is null, if that is a choice, so that a tree ends.
func (f *filler) best(choices []*schema, depth int) *schema {
	isNull := func(s *schema) bool { return s != nil && s.Ref == "" && s.kind() == "null" }
	if i := slices.IndexFunc(choices, isNull); i >= 0 && depth > maxNested {
		return choices[i]
	}
	if i := slices.IndexFunc(choices, func(s *schema) bool { return !isNull(s) }); i >= 0 {
		return choices[i]
	}
	return choices[0]
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
	list, seen := []any{}, make(map[string]bool)
	wanted := 2
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
		text := encoded(value)
		if _, isText := value.(string); seen[text] && (s.UniqueItems || isText && item.Format+item.Pattern == "" && len(item.Enum) == 0) {
			value = f.another(&item, list[n-1], n+1)
			text = encoded(value)
		}
		seen[text] = true
		list = append(list, value)
	}
	return list
}

// another returns a value that differs from the last one of a list.
func (f *filler) another(s *schema, last any, ordinal int) any {
	switch last := last.(type) {
	case string:
		suffix := fmt.Sprintf(" %d", ordinal)
		if s.MaxLength != nil {
			last = string([]rune(last)[:max(0, min(utf8.RuneCountInString(last), *s.MaxLength-len(suffix)))])
		}
		return last + suffix
	case int64:
		above := float64(last)
		s.ExclusiveMinimum = &above
		return int64(f.number(s, true))
	case float64:
		s.ExclusiveMinimum = &last
		return f.number(s, false)
	case bool:
		return !last
	}
	return last
}

var numberIn = regexp.MustCompile(`\d+(?:\.\d+)?`)

// number returns a number of the question that fits or, if none does, one in the range.
func (f *filler) number(s *schema, whole bool) float64 {
	low, high := math.Inf(-1), math.Inf(1)
	step := s.MultipleOf
	if whole && step == 0 {
		step = 1
	}
	for _, bound := range []*float64{s.Minimum, s.ExclusiveMinimum} {
		if bound != nil {
			low = math.Max(low, *bound)
		}
	}
	for _, bound := range []*float64{s.Maximum, s.ExclusiveMaximum} {
		if bound != nil {
			high = math.Min(high, *bound)
		}
	}
	fits := func(n float64) bool {
		return n >= low && n <= high && (s.ExclusiveMinimum == nil || n > *s.ExclusiveMinimum) && (s.ExclusiveMaximum == nil || n < *s.ExclusiveMaximum) &&
			(step == 0 || math.Abs(n/step-math.Round(n/step)) < 1e-9)
	}
	for i, n := range f.numbers {
		if fits(n) {
			f.numbers = slices.Delete(f.numbers, i, i+1)
			return n
		}
	}
	unit := step
	if unit == 0 {
		unit = math.Min(1, (high-low)/2)
	}
	for _, n := range []float64{unit, math.Ceil(low/unit) * unit, math.Ceil(low/unit)*unit + unit, math.Floor(high/unit) * unit, math.Floor(high/unit)*unit - unit, low + unit, high - unit, 0} {
		if !math.IsNaN(n) && !math.IsInf(n, 0) && fits(n) {
			return n
		}
	}
	return 0
}

// formats are texts of the formats of strings.
var formats = map[string]func() string{
	"date":      func() string { return time.Now().Format(time.DateOnly) },
	"date-time": func() string { return time.Now().UTC().Format(time.RFC3339) },
	"time":      func() string { return time.Now().UTC().Format("15:04:05Z") },
	"duration":  func() string { return "PT15M" },
	"email":     func() string { return "ada@example.com" },
	"hostname":  func() string { return "example.com" },
	"ipv4":      func() string { return "192.0.2.1" },
	"ipv6":      func() string { return "2001:db8::1" },
	"uri":       func() string { return "https://example.com/" },
	"uuid":      func() string { return "3f2b8c1e-5d4a-4b6f-9c7d-8e9f0a1b2c3d" },
}

// existingFile is a file that many projects have.
const existingFile = "README.md"

// samples are texts of members whose name contains the key, unless the question names something.
var samples = []struct{ key, text string }{
	{"city", "Oslo"}, {"location", "Oslo"}, {"place", "Oslo"}, {"country", "Norway"}, {"email", "ada@example.com"}, {"url", "https://example.com/"},
	{"path", existingFile}, {"file", existingFile}, {"command", "echo hello"}, {"color", "blue"}, {"colour", "blue"}, {"currency", "EUR"},
	{"language", "en"}, {"phone", "+47 22 00 00 00"}, {"unit", "celsius"}, {"tag", "demo"}, {"author", "Ursula K. Le Guin"}, {"name", "Ada"},
}

// namedByQuestion matches the names of members for which names in the question are taken.
var namedByQuestion = regexp.MustCompile(`name|city|location|place|country|author|person|subject|query`)

// text returns a text for a member with this name.
func (f *filler) text(s *schema, name string) string {
	if format := formats[s.Format]; format != nil {
		return format()
	}
	text, lower := f.q.brief(), strings.ToLower(name)
	switch {
	case f.requiredOnly:
		text = f.q.text[:min(len(f.q.text), 4*maxEnds)]
		text = strings.ToValidUTF8(text, "")
	case strings.Contains(lower, "title"):
		text = f.q.title()
	case strings.Contains(lower, "date"):
		text = formats["date"]()
	}
	for _, sample := range samples {
		if strings.Contains(lower, sample.key) {
			text = sample.text
			break
		}
	}
	if text == existingFile && f.root.Properties["content"] != nil {
		text = "demo-note.md" // the call writes it
	}
	if namedByQuestion.MatchString(lower) && len(f.names) > 0 && text != existingFile {
		text = f.names[0]
		if len(f.names) > 1 {
			f.names = f.names[1:]
		}
	}
	return f.fit(s, text)
}

// fit makes a text as long, and of such characters, as the schema asks for.
func (f *filler) fit(s *schema, text string) string {
	if s.Pattern != "" {
		if pattern, err := regexp.Compile(s.Pattern); err == nil && !pattern.MatchString(text) {
			for _, other := range []string{"demo", "Demo", "DEMO", "de", "DE", "EUR", "abc123", "ABC-123", "A1", "12345", "0", "1.0.0", "v1.0.0", "2026-01-31", "12:30", "#1e90ff", "+4722000000", "demo-1", "a@example.com", "https://example.com/"} {
				if pattern.MatchString(other) {
					text = other
					break
				}
			}
		}
		return text
	}
	for n := s.MinLength - utf8.RuneCountInString(text); n > 0 && s.MinLength <= maxDigested; n = s.MinLength - utf8.RuneCountInString(text) {
		text += strings.Repeat(".", n)
	}
	if runes := []rune(text); s.MaxLength != nil && len(runes) > *s.MaxLength {
		text = string(runes[:max(0, *s.MaxLength)])
	}
	return text
}

// capitalized is a word within a sentence that is written like a name, or several in a row.
var capitalized = regexp.MustCompile(`[\pL\d,:"“'(] ?["“'(]?((?:\p{Lu}[\pL’-]+)(?: \p{Lu}[\pL’-]+)*)`)

// notNames are words that are written like names, and are none of a thing asked for.
var notNames = []string{"I", "JSON", "Use", "Call", "Markdown", "What", "How", "The"}

// namesIn returns the names in a text, each once.
func namesIn(text string) (names []string) {
	for _, match := range capitalized.FindAllStringSubmatchIndex(ends(text), 20) {
		if before := ends(text)[match[0]:match[2]]; !strings.ContainsAny(before, " \"“'(") {
			continue // within a word
		}
		name := ends(text)[match[2]:match[3]]
		if !slices.Contains(notNames, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names[:min(len(names), maxCalls)]
}

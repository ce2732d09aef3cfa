package codexschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// untold are keywords that say nothing of the arguments.
var untold = []string{"$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"}

// Missing says what of a client's schema a model does not learn from the offered schema and the
// words beside it; nil: nothing. Beyond it, only types and empty children may be offered.
func Missing(schema []byte, offered Schema, words string) error {
	header, rest, _ := strings.Cut(words, "\n")
	switch {
	case words == "":
	case !strings.HasSuffix(header, ":"):
		return fmt.Errorf("no header: %q", header)
	case strings.HasPrefix(rest, "{"):
		if rest != string(schema) {
			return fmt.Errorf("the words hold another schema: %s", rest)
		}
		return nil
	default:
		if err := addWords(offered, rest); err != nil {
			return fmt.Errorf("%w in\n%s", err, words)
		}
	}
	given, err := Decode(schema)
	if err != nil {
		return err
	}
	return compare("", "", given, offered)
}

// addWords puts the keywords of lines back into the schema that a model is offered.
func addWords(offered Schema, lines string) error {
	for line := range strings.SplitSeq(lines, "\n") {
		r := lineReader{rest: line}
		r.cut("- ")
		at, err := r.path(offered)
		if errors.Is(err, errUnused) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w in %q", err, line)
		}
		for more := true; more; more = r.cut(", ") {
			keyword := r.name()
			if !r.cut(" ") {
				return fmt.Errorf("no value in %q", line)
			}
			value := r.value()
			switch _, twice := at[keyword]; {
			case twice && keyword == "enum": // of a wrong form, beside a const
			case twice && keyword != "type" && keyword != "items" && keyword != "properties":
				return fmt.Errorf("%s is no loss: %q", keyword, line)
			default:
				at[keyword] = value
			}
		}
		if r.err != nil {
			return fmt.Errorf("%q: %w", line, r.err)
		}
		if r.rest != "" {
			return fmt.Errorf("%q is left of %q", r.rest, line)
		}
	}
	return nil
}

type lineReader struct {
	rest string
	err  error // what is wrong with the line; it has no rest then
}

func (r *lineReader) fail(err error) { r.rest, r.err = "", err }

func (r *lineReader) cut(prefix string) (ok bool) {
	r.rest, ok = strings.CutPrefix(r.rest, prefix)
	return ok
}

func (r *lineReader) value() any {
	d := json.NewDecoder(strings.NewReader(r.rest))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		r.fail(err)
		return nil
	}
	r.rest = r.rest[d.InputOffset():]
	return respell(v)
}

func (r *lineReader) name() string {
	if strings.HasPrefix(r.rest, `"`) {
		name, _ := r.value().(string)
		return name
	}
	n := strings.IndexFunc(r.rest, func(c rune) bool { return strings.ContainsRune(" .[]{}:,*", c) })
	if n < 0 {
		r.fail(errors.New("a name without an end"))
		return ""
	}
	name := r.rest[:n]
	r.rest = r.rest[n:]
	return name
}

// errUnused is that of a path into a definition to which nothing refers.
var errUnused = errors.New("the definition is not used")

// path reads a path and its colon, and goes along it.
func (r *lineReader) path(at Schema) (Schema, error) {
	if r.cut("(all): ") {
		return at, nil
	}
	for !r.cut(": ") {
		var next any
		switch {
		case r.cut("[]"):
			next = at["items"]
		case r.cut("{"):
			keyword := r.name()
			r.cut(" ")
			name := r.name()
			r.cut("}")
			if list, ok := at[keyword].([]any); ok {
				i, err := strconv.Atoi(name)
				if err != nil || i >= len(list) {
					return nil, fmt.Errorf("no %s %s", keyword, name)
				}
				next = list[i]
			} else if m, ok := at[keyword].(Schema); ok {
				next = m[name]
			}
			if next == nil && slices.Contains(tables, keyword) {
				return nil, errUnused
			}
		default:
			r.cut(".")
			if r.cut("*") {
				next = at["additionalProperties"]
			} else if m, ok := at["properties"].(Schema); ok {
				next = m[r.name()]
			}
		}
		var ok bool
		if at, ok = next.(Schema); !ok {
			return nil, fmt.Errorf("the path leads nowhere")
		}
	}
	return at, nil
}

// compare says what a schema has that seen, which is what a model sees of it, lacks or has
// otherwise. What Codex or Fit add must be nothing but a type and empty children.
func compare(path, name string, want any, seen Schema) error {
	switch want := want.(type) {
	case bool:
		if want && len(seen) == 0 || !want && reflect.DeepEqual(seen, Schema{"not": Schema{}}) {
			return nil
		}
		return fmt.Errorf("%s: %t is seen as %v", path, want, seen)
	case Schema:
		return compareObjects(path, name, want, seen)
	}
	return fmt.Errorf("%s: %v is no schema", path, want)
}

func compareObjects(path, name string, want, seen Schema) error {
	for keyword, value := range want {
		at := path + "/" + keyword
		switch {
		case has(seen, keyword) && reflect.DeepEqual(value, seen[keyword]):
		case slices.Contains(untold, keyword):
		case value == nil && keyword != "const" && keyword != "default" && keyword != "example":
		case keyword == "title" && repeats(value, name):
		case keyword == "const":
			if !reflect.DeepEqual(seen["enum"], []any{value}) {
				return fmt.Errorf("%s: seen as enum %v", at, seen["enum"])
			}
		case keyword == "enum" && has(want, "const"):
		case keyword == "type" && reflect.DeepEqual(value, []any{seen["type"]}):
		default:
			if err := compareValues(at, keyword, value, seen[keyword]); err != nil {
				return err
			}
		}
	}
	for keyword, value := range seen {
		_, wanted := want[keyword]
		if wanted || keyword == "type" || keyword == "enum" && has(want, "const") {
			continue
		}
		if children, ok := value.(Schema); !ok || len(children) > 0 || keyword != "properties" && keyword != "items" {
			return fmt.Errorf("%s/%s: %v was added", path, keyword, value)
		}
	}
	return nil
}

func compareValues(at, keyword string, want, seen any) error {
	switch w := want.(type) {
	case []any:
		if s, ok := seen.([]any); ok && slices.Contains(compositions, keyword) && len(s) == len(w) {
			for i := range w {
				if err := compareChild(fmt.Sprint(at, "/", i), "", w[i], s[i]); err != nil {
					return err
				}
			}
			return nil
		}
	case Schema:
		s, ok := seen.(Schema)
		switch {
		case ok && slices.Contains(single, keyword):
			return compareChild(at, "", want, seen)
		case ok && (keyword == "properties" || slices.Contains(tables, keyword)):
			for name := range w {
				if _, ok := s[name]; !ok && keyword != "properties" {
					continue // one to which nothing refers
				}
				if err := compareChild(at+"/"+name, name, w[name], s[name]); err != nil {
					return err
				}
			}
			return nil
		case slices.Contains(tables, keyword):
			return nil // none of them is referred to
		}
	case bool:
		if keyword == "items" {
			return compareChild(at, "", want, seen)
		}
	}
	if !reflect.DeepEqual(want, seen) {
		return fmt.Errorf("%s: %v is seen as %v", at, want, seen)
	}
	return nil
}

func compareChild(at, name string, want, seen any) error {
	s, ok := seen.(Schema)
	if !ok {
		return fmt.Errorf("%s: %v is seen as %v", at, want, seen)
	}
	return compare(at, name, want, s)
}

// repeats reports whether a title is but the name of its argument.
func repeats(title any, name string) bool {
	text, _ := title.(string)
	fold := strings.NewReplacer(" ", "", "_", "", "-", "")
	return strings.EqualFold(fold.Replace(text), fold.Replace(name))
}

package field

import "github.com/caddy-codex/caddy-codex/internal/jsontext"

// Members reads the members of an object into r, each with the reader of its name, in the
// order of the object. Members without a reader are skipped.
func Members[R any](object jsontext.Value, r R, readers map[string]func(R, jsontext.Value) *Error) *Error {
	for name, v := range object.Members() {
		read, known := readers[string(name)]
		if !known {
			continue
		}
		if f := read(r, v); f != nil {
			return f.In(string(name))
		}
	}
	return nil
}

// Object reads members of an object, see [jsontext.Value.Pick].
func Object(v jsontext.Value, wanted ...jsontext.Member) *Error {
	if f := Expect(jsontext.KindObject, v); f != nil {
		return f
	}
	v.Pick(wanted...)
	return nil
}

// Elements reads the elements of an array, which may be absent or null, each with read. There
// may be most of what they are.
func Elements(v jsontext.Value, most int, what string, read func(i int, v jsontext.Value) *Error) *Error {
	if !v.Given() {
		return nil
	}
	if f := Expect(jsontext.KindArray, v); f != nil {
		return f
	}
	for i, v := range v.Elements() {
		if i == most {
			return Invalid("must hold at most %d %s", most, what)
		}
		if f := read(i, v); f != nil {
			return f.At(i)
		}
	}
	return nil
}

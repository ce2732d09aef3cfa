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

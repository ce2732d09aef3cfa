package jsontext

import "encoding/json"

// Append appends the JSON of v as encoding/json encodes it, but without the escapes
// that only HTML needs. It is for types that always encode: a v that does not leaves
// dst as it was.
func Append(dst []byte, v any) []byte {
	out := appender(dst)
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return dst
	}
	return out[:len(out)-1] // the encoder adds a newline
}

// appender is a writer that appends.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// OrNull returns what encodes as s, or as null if s is empty.
func OrNull[S ~string](s S) *S {
	if s == "" {
		return nil
	}
	return &s
}

// Quote writes a JSON string without the escapes that only HTML needs.
func Quote(s string) string { return string(Append(nil, s)) }

package jsontext

import "encoding/json"

// Append appends the JSON of v as encoding/json encodes it, but without the escapes
// that only HTML needs. If v cannot be encoded it returns dst: use it for types for
// which that does not happen.
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

// OrNull returns a pointer to s, or nil if s is empty. As JSON that is s or null.
func OrNull[S ~string](s S) *S {
	if s == "" {
		return nil
	}
	return &s
}

// Quote returns s as a JSON string without the escapes that only HTML needs.
func Quote(s string) string { return string(Append(nil, s)) }

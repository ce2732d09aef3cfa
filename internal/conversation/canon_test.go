package conversation

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzArguments: a JSON value has one spelling, which is that value and not much longer,
// however it was written. Any other text stays as it is.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		`{"b":[1.0,1e2,-0.0],"a":"\u00e9<"}`, `{}]`, `{"a":1}}`, `{} x`, `[1e308,5e-324,1E21,123456789012345678901234567890]`, `{"a":`, ` {"a": 1, "a": 2}`, "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := canonicalArguments(text)
		if !json.Valid([]byte(text)) {
			if got != text && (text != "" || got != "{}") {
				t.Fatalf("%q became %q", text, got)
			}
			return
		}
		if len(got) > 6*len(text)+16 {
			t.Fatalf("%q became %d bytes", text, len(got))
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, []byte(text), " ", "\t"); err != nil {
			t.Fatal(err)
		}
		for _, again := range []string{got, spaced.String()} {
			if canonicalArguments(again) != got {
				t.Fatalf("%q is %q, but %q is %q", text, got, again, canonicalArguments(again))
			}
		}
		var before, after any
		if json.Unmarshal([]byte(text), &before) == nil && (json.Unmarshal([]byte(got), &after) != nil || !reflect.DeepEqual(before, after)) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

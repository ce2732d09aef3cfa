package conversation

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
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

// FuzzKeys: a stored document is refused, or its keys come back from the memory as they
// are stored again, within the memory's limit.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":"` + strings.Repeat("QUJD", 32) + `"}`)) // two
	f.Add([]byte(`{"keys":""}`))
	f.Add([]byte(`{"keys":[1]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		first := restoredKeys(t, content)
		stored, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		if again := restoredKeys(t, stored); !bytes.Equal(again.Keys, first.Keys) {
			t.Fatalf("%x came back as %x", first.Keys, again.Keys)
		}
	})
}

// restoredKeys returns the keys that a memory has of a document.
func restoredKeys(t *testing.T, content []byte) *keysDocument {
	m := NewMemory(8 << 10)
	k := &Keys{m}
	err := k.Restore(content)
	document, _ := k.Document(math.MaxUint64)
	d := document.(*keysDocument)
	if m.bytes > 8<<10 || len(d.Keys) != len(m.byHash)*storedKeySize || err != nil && len(d.Keys) > 0 {
		t.Fatalf("%d bytes, %d keys, %d stored, %v", m.bytes, len(m.byHash), len(d.Keys)/storedKeySize, err)
	}
	return d
}

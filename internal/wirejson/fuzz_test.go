package wirejson

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzText: the walk over an event reads what encoding/json reads.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\ud83d\ude00\ud800\n"}],"\u0063":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, ok := Valid(data)
		if !ok {
			if json.Valid(data) {
				t.Fatal("valid JSON refused")
			}
			return
		}
		checkWalk(t, text, 0)
	})
}

func checkWalk(t *testing.T, value string, depth int) {
	if value == "" || depth > 100 {
		return
	}
	var want any
	if json.Unmarshal([]byte(value), &want) != nil {
		return // a number beyond float64
	}
	switch want := want.(type) {
	case string:
		got, ok := AsString(value)
		if plain := strings.ToValidUTF8(got.String(), "�"); !ok || plain != strings.ToValidUTF8(want, "�") && utf8.ValidString(value) {
			t.Fatalf("%s reads as %q, want %q", value, got.String(), want)
		}
	case map[string]any:
		got := map[string]bool{}
		for w := Walk(value); w.Next(); {
			got[w.Key] = true
			checkWalk(t, w.Value, depth+1)
		}
		if len(got) != len(want) && utf8.ValidString(value) {
			t.Fatalf("%s has %d members, want %d", value, len(got), len(want))
		}
	case []any:
		n := 0
		for w := Walk(value); w.Next(); n++ {
			checkWalk(t, w.Value, depth+1)
		}
		if n != len(want) {
			t.Fatalf("%s has %d elements, want %d", value, n, len(want))
		}
	}
}

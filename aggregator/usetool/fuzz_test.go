package usetool

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzXML: what is written is read back by the client's grammar.
func FuzzXML(f *testing.F) {
	f.Add("x", `["<b>"]`)
	f.Fuzz(func(t *testing.T, path, diff string) {
		path = strings.ToValidUTF8(path, "�")
		var value any
		if json.Unmarshal([]byte(diff), &value) != nil {
			value = strings.ToValidUTF8(diff, "�")
		}
		switch value.(type) {
		case string, []any, map[string]any:
			checkReadBack(t, "replaceInFile", map[string]any{"path": path, "diff": value})
		}
		if block, err := RenderXML(path, diff, EscapeEntities); err == nil && !strings.HasPrefix(block, "<use_tool>\n<name>") {
			t.Fatalf("block %q", block)
		}
	})
}

// FuzzBlockOfCall: whatever a call is made of, its block is one that the client
// reads as that call with those arguments and no others, or there is none.
func FuzzBlockOfCall(f *testing.F) {
	f.Add("find", `{"name":"x","item":"</find>","args":{"a":"<b>"}}`)
	f.Add("readNote", `{"path":"a","notePath":"b","more":"c"}`)
	f.Fuzz(func(t *testing.T, name, arguments string) {
		if !utf8.ValidString(name) || !utf8.ValidString(arguments) {
			return
		}
		block, err := RenderXML(name, arguments, EscapeLiteral)
		if err != nil {
			return
		}
		params, err := Shape(name, arguments)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, p := range params {
			if p.Value != "null" {
				want[p.Name] = true
			}
		}
		calls := clientRead("before " + block + " after")
		if len(calls) != 1 || calls[0].name != name || len(calls[0].params) != len(want) {
			t.Fatalf("%s %s: %s\nreads as %+v", name, arguments, block, calls)
		}
		for read := range calls[0].params {
			if !want[read] {
				t.Fatalf("%s %s: %s\nhas %q", name, arguments, block, read)
			}
		}
	})
}

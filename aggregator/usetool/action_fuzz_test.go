package usetool

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAction: calls with the same arguments are one action, however these are spelled and
// ordered. With one argument more or another name it is another action.
func FuzzAction(f *testing.F) {
	f.Add("f", `{"a":[1, 2],"b":"x\u00fc","c":null}`)
	f.Add("readNote", `{"path":"a.md","notePath":"b.md"}`)
	f.Add("f", `{"a":{"b":"<c>"},"a":1}`)
	f.Add("f", `{"a":"{\"b\": 1}"}`)
	f.Fuzz(func(t *testing.T, name, arguments string) {
		action := Action(name, arguments)
		if Action(name+"x", arguments) == action {
			t.Fatal("another tool is the same")
		}
		params, err := readArguments(arguments)
		if err != nil || !utf8.ValidString(arguments) {
			return
		}
		if len(params) > 0 {
			var spaced bytes.Buffer
			if err := json.Indent(&spaced, []byte(arguments), "\n", " \t"); err != nil {
				t.Fatal(err)
			}
			slices.Reverse(params)
			for _, same := range []string{spaced.String(), members(params), "\n" + members(params) + " "} {
				if Action(name, same) != action {
					t.Fatalf("%s and %s differ", arguments, same)
				}
			}
		}
		for _, p := range params {
			if p.Name == "added" {
				return
			}
		}
		if Action(name, members(append(params, Param{"added", "0"}))) == action {
			t.Fatalf("one argument more than %s is the same", arguments)
		}
	})
}

// members writes parameters as a JSON object.
func members(params []Param) string {
	var written []string
	for _, p := range params {
		name, _ := json.Marshal(p.Name) // of valid UTF-8
		written = append(written, string(name)+":"+p.Value)
	}
	return "{" + strings.Join(written, ",") + "}"
}

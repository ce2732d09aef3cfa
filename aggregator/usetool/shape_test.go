package usetool

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAction(t *testing.T) {
	type call struct{ name, arguments string }
	for what, c := range map[string]struct {
		a, b call
		same bool
	}{
		"identical":                        {call{"f", `{"a":1}`}, call{"f", `{"a":1}`}, true},
		"white space":                      {call{"f", `{"a":[1, 2],"b":"x"}`}, call{"f", ` { "a" : [1,2] , "b" : "x" } `}, true},
		"order":                            {call{"f", `{"a":1,"b":2}`}, call{"f", `{"b":2,"a":1}`}, true},
		"a number as text":                 {call{"f", `{"a":3}`}, call{"f", `{"a":"3"}`}, true},
		"an array as text":                 {call{"f", `{"a":["x"]}`}, call{"f", `{"a":"[\"x\"]"}`}, true},
		"escapes":                          {call{"f", `{"a":"ü<"}`}, call{"f", `{"a":"\u00fc\u003c"}`}, true},
		"text around a value":              {call{"f", `{"a":" x\n"}`}, call{"f", `{"a":"x"}`}, true},
		"null is absent":                   {call{"f", `{"a":1,"b":null}`}, call{"f", `{"a":1}`}, true},
		"an alias of the canon":            {call{"readNote", `{"path":"a.md"}`}, call{"readNote", `{"notePath":"a.md"}`}, true},
		"no arguments":                     {call{"f", ``}, call{"f", `{}`}, true},
		"not JSON":                         {call{"f", `{"a":`}, call{"f", ` {"a":`}, true},
		"another tool":                     {call{"f", `{"a":1}`}, call{"g", `{"a":1}`}, false},
		"another value":                    {call{"f", `{"a":1}`}, call{"f", `{"a":2}`}, false},
		"another name":                     {call{"f", `{"a":1}`}, call{"f", `{"b":1}`}, false},
		"a value elsewhere":                {call{"f", `{"a":"b","c":"d"}`}, call{"f", `{"a":"bc","d":""}`}, false},
		"the text null":                    {call{"f", `{"a":"null"}`}, call{"f", `{}`}, false},
		"a NUL in a value":                 {call{"f", `{"a":"x\u0000b\u0000y"}`}, call{"f", `{"a":"x","b":"y"}`}, false},
		"an unknown argument of the canon": {call{"webSearch", `{"q":"cats"}`}, call{"webSearch", `{"q":"dogs"}`}, false},
		"arguments of a tool without any":  {call{"getFileTree", `{"a":1}`}, call{"getFileTree", `{}`}, false},
		"an alias beside its name":         {call{"readNote", `{"path":"a.md","notePath":"b.md"}`}, call{"readNote", `{"notePath":"b.md"}`}, false},
		"inner order counts":               {call{"f", `{"a":[1,2]}`}, call{"f", `{"a":[2,1]}`}, false},
	} {
		if got := Action(c.a.name, c.a.arguments) == Action(c.b.name, c.b.arguments); got != c.same {
			t.Errorf("%s: %v and %v are the same: %t", what, c.a, c.b, got)
		}
	}
}

func TestStructuredAction(t *testing.T) {
	for what, c := range map[string]struct {
		a, b string
		same bool
	}{
		"order and white space":  {`{"a":{"x":1,"y":2},"b":3}`, ` { "b":3, "a":{"y":2,"x":1} }`, true},
		"escapes":                {`{"a":"ü<"}`, `{"a":"\u00fc\u003c"}`, true},
		"a number as text":       {`{"a":1}`, `{"a":"1"}`, false},
		"other digits":           {`{"a":1}`, `{"a":1.0}`, false},
		"large numbers":          {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"an array as text":       {`{"a":[1]}`, `{"a":"[1]"}`, false},
		"white space in a value": {`{"a":" x"}`, `{"a":"x"}`, false},
		"null":                   {`{"a":null}`, `{}`, false},
		"an alias":               {`{"path":"x"}`, `{"notePath":"x"}`, false},
		"not JSON":               {`{"a":`, `{"b":`, false},
		"more than one value":    {`{} {}`, `{}`, false},
	} {
		if got := StructuredAction("readNote", c.a) == StructuredAction("readNote", c.b); got != c.same {
			t.Errorf("%s: %s and %s are the same: %t", what, c.a, c.b, got)
		}
	}
	if StructuredAction("f", "{}") == StructuredAction("g", "{}") {
		t.Error("two tools are the same")
	}
}

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

func members(params []Param) string {
	var written []string
	for _, p := range params {
		name, _ := json.Marshal(p.Name) // of valid UTF-8
		written = append(written, string(name)+":"+p.Value)
	}
	return "{" + strings.Join(written, ",") + "}"
}

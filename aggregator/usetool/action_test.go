package usetool

import "testing"

func TestAction(t *testing.T) {
	type call struct{ name, arguments string }
	for what, c := range map[string]struct {
		a, b call
		same bool
	}{
		"identical":             {call{"f", `{"a":1}`}, call{"f", `{"a":1}`}, true},
		"white space":           {call{"f", `{"a":[1, 2],"b":"x"}`}, call{"f", ` { "a" : [1,2] , "b" : "x" } `}, true},
		"order":                 {call{"f", `{"a":1,"b":2}`}, call{"f", `{"b":2,"a":1}`}, true},
		"a number as text":      {call{"f", `{"a":3}`}, call{"f", `{"a":"3"}`}, true},
		"an array as text":      {call{"f", `{"a":["x"]}`}, call{"f", `{"a":"[\"x\"]"}`}, true},
		"escapes":               {call{"f", `{"a":"ü<"}`}, call{"f", `{"a":"\u00fc\u003c"}`}, true},
		"text around a value":   {call{"f", `{"a":" x\n"}`}, call{"f", `{"a":"x"}`}, true},
		"null is absent":        {call{"f", `{"a":1,"b":null}`}, call{"f", `{"a":1}`}, true},
		"an alias of the canon": {call{"readNote", `{"path":"a.md"}`}, call{"readNote", `{"notePath":"a.md"}`}, true},
		"no arguments":          {call{"f", ``}, call{"f", `{}`}, true},
		"not JSON":              {call{"f", `{"a":`}, call{"f", ` {"a":`}, true},
		"another tool":          {call{"f", `{"a":1}`}, call{"g", `{"a":1}`}, false},
		"another value":         {call{"f", `{"a":1}`}, call{"f", `{"a":2}`}, false},
		"another name":          {call{"f", `{"a":1}`}, call{"f", `{"b":1}`}, false},
		"a value elsewhere":     {call{"f", `{"a":"b","c":"d"}`}, call{"f", `{"a":"bc","d":""}`}, false},
		"the text null":         {call{"f", `{"a":"null"}`}, call{"f", `{}`}, false},
		"a NUL in a value":      {call{"f", `{"a":"x\u0000b\u0000y"}`}, call{"f", `{"a":"x","b":"y"}`}, false},
		"inner order counts":    {call{"f", `{"a":[1,2]}`}, call{"f", `{"a":[2,1]}`}, false},
	} {
		if got := Action(c.a.name, c.a.arguments) == Action(c.b.name, c.b.arguments); got != c.same {
			t.Errorf("%s: %v and %v are the same: %t", what, c.a, c.b, got)
		}
	}
}

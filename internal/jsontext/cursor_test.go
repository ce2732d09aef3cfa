package jsontext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// readAll reads the value at a cursor, descending into all of it.
func readAll(c *Cursor) any {
	switch c.Kind() {
	case KindObject:
		m := map[string]any{}
		for c.Enter(); c.Next(); {
			name := c.Name().Text()
			m[name] = readAll(c)
		}
		return m
	case KindArray:
		a := []any{}
		for c.Enter(); c.Next(); {
			a = append(a, readAll(c))
		}
		return a
	}
	return toAny(c.Skip())
}

func TestCursor(t *testing.T) {
	for _, text := range []string{
		`{"a":[1,"x",{},[],true,null],"b":-1.5e9}`,
		` { "a" : [ 1 , "x" , { } , [ ] , [ [ 2 ] ] ] , "b" : { "c" : { "d" : "\"}]" } } } `,
		`[]`, `{}`, `[[],{}]`, `7`, `"x"`, `{"a":1,"a":2,"\u0061":3}`,
	} {
		v, syntax := Parse([]byte(text))
		if syntax != nil {
			t.Fatalf("%s: %v", text, syntax)
		}
		var want any
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatal(err)
		}
		c := NewCursor(v)
		var got any
		if span := c.Read(func() { got = readAll(c) }); !reflect.DeepEqual(got, want) || string(span) != string(v) {
			t.Errorf("%s: read %#v, want %#v; walked %s", text, got, want, span)
		}
	}
}

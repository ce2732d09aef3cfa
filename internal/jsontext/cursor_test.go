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
		for name := range c.Members() {
			m[string(name)] = readAll(c)
		}
		return m
	case KindArray:
		a := []any{}
		for i := range c.Elements() {
			if i != len(a) {
				panic("elements are counted wrongly")
			}
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

// TestCursorSkips: what a loop does not read is skipped for it.
func TestCursorSkips(t *testing.T) {
	c := NewCursor(Value(`{"a":{"x":[1]},"b":[2,[3]],"c":4}`))
	var names, values []string
	for name := range c.Members() {
		names = append(names, string(name))
		if string(name) == "b" {
			for range c.Elements() {
				values = append(values, string(c.Skip()))
			}
		}
	}
	if want := []string{"a", "b", "c"}; !reflect.DeepEqual(names, want) {
		t.Errorf("the members %q, want %q", names, want)
	}
	if want := []string{"2", "[3]"}; !reflect.DeepEqual(values, want) {
		t.Errorf("the elements %q, want %q", values, want)
	}
}

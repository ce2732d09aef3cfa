package wirejson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
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
		must.OK(t, decoder.Decode(&want))
		c := NewCursor(v)
		var got any
		if span := c.Read(func() { got = readAll(c) }); !reflect.DeepEqual(got, want) || string(span) != string(v) {
			t.Errorf("%s: read %#v, want %#v; walked %s", text, got, want, span)
		}
	}
}

// TestCursorPick: a cursor that picks members goes where one that skips the value goes, and
// finds what the value's own Pick finds.
func TestCursorPick(t *testing.T) {
	list := Value(`[{"a":"x]}","type":"t","b":[{"a":1}],"a":"last"} , {}, "a", -7,null, [{"a":1}],{"b":{"b":2}}]`)
	picking, skipping := NewCursor(list), NewCursor(list)
	picking.Enter()
	skipping.Enter()
	for skipping.Next() {
		if !picking.Next() {
			t.Fatal("the cursor has come to the end")
		}
		var got, want [3]Value
		v := skipping.Skip()
		if v.Kind() == KindObject {
			v.PickTyped(&want[0], Into("a", &want[1]), Into("b", &want[2]))
		}
		read := picking.PickTyped(&got[0], Into("a", &got[1]), Into("b", &got[2]))
		if string(read) != string(v) || cap(read) != len(read) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: picked %s of %s, want %s", v, got, read, want)
		}
	}
	if picking.Next() {
		t.Error("the cursor is not at the end")
	}
}

// TestMembersKnowing: a value that is known already is not read again, and changes nothing.
func TestMembersKnowing(t *testing.T) {
	object := Value(`{"a":["x"],"long":[1,"2"],"a":["y"],"b":3}`)
	var known Value
	object.Pick(Into("a", &known)) // the second one
	for _, known := range []Value{nil, known, Value(`["y"]`)} {
		var got []string
		for name, v := range object.MembersKnowing(known) {
			got = append(got, string(name)+string(v))
		}
		if want := []string{`a["x"]`, `long[1,"2"]`, `a["y"]`, `b3`}; !reflect.DeepEqual(got, want) {
			t.Errorf("with %s: %q, want %q", known, got, want)
		}
	}
	// Text that is known is not looked at: it may even be changed.
	copy(known, `]]]]]`)
	n := 0
	for range object.MembersKnowing(known) {
		n++
	}
	if n != 4 {
		t.Errorf("%d members, want 4", n)
	}
}

// FuzzText: the walk over an event reads what encoding/json reads.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\ud83d\ude00\ud800\n"}],"\u0063":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if json.Valid(data) {
			checkWalk(t, Value(bytes.TrimSpace(data)), 0)
		}
	})
}

func checkWalk(t *testing.T, value Value, depth int) {
	var want any
	if depth > 100 || json.Unmarshal(value, &want) != nil { // a number may be beyond float64
		return
	}
	members := map[string]bool{}
	n := 0
	for v := range value.Values() {
		n++
		checkWalk(t, v, depth+1)
	}
	text, isText := value.AsText()
	switch want := want.(type) {
	case string:
		if plain := strings.ToValidUTF8(text, "\ufffd"); !isText || plain != strings.ToValidUTF8(want, "\ufffd") && utf8.Valid(value) {
			t.Fatalf("%s reads as %q, want %q", value, text, want)
		}
	case map[string]any:
		for name := range value.Members() {
			members[string(name)] = true
		}
		if len(members) != len(want) && utf8.Valid(value) || n < len(want) {
			t.Fatalf("%s has %d members and %d values, want %d", value, len(members), n, len(want))
		}
	case []any:
		if n != len(want) {
			t.Fatalf("%s has %d elements, want %d", value, n, len(want))
		}
	default:
		if isText || n > 0 {
			t.Fatalf("%s is the text %q, with %d values", value, text, n)
		}
	}
}

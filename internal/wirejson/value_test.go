package wirejson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// toAny reads a value by its own methods into what encoding/json makes of it.
func toAny(v Value) any {
	switch v.Kind() {
	case KindObject:
		m := map[string]any{}
		for name, v := range v.Members() {
			m[string(name)] = toAny(v)
		}
		return m
	case KindArray:
		a := []any{}
		for i, v := range v.Elements() {
			if i != len(a) {
				panic("elements are counted wrongly")
			}
			a = append(a, toAny(v))
		}
		return a
	case KindString:
		return v.Text()
	case KindBool:
		return v.IsTrue()
	case KindNumber:
		return json.Number(v)
	}
	return nil
}

func sameAsEncodingJSON(t *testing.T, text string) {
	t.Helper()
	v, syntax := Parse([]byte(text))
	if syntax != nil {
		t.Fatalf("%q: %v", text, syntax)
	}
	got := toAny(v)
	var want any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	must.OK(t, decoder.Decode(&want))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q: read %#v, want %#v", text, got, want)
	}
}

func TestValue(t *testing.T) {
	for _, text := range []string{
		` { "a" : [ 1 , "x" , { } , [ ] , true , null ] , "b" : -1.5e9 } `,
		`{"a":1,"a":2,"\u0061":3}`,
		`"plain"`, `""`, `"\"\\\/\b\f\n\r\t"`, `"\\"`, `"\\\\\""`, `["\\",1]`, `{"\\":"\"","b":1}`,
		`"é\u00e9\ud83d\ude00\u0000\u2028"`,
		`["\ud800","\udc00","\ud800\u0041","\ud800\ud800\udc00","x\udfffy"]`,
		`[1,2 ,3	]`, `[-0]`, `{"n":1}`, `[[],[[]],{"a":{}}]`, "{\n}", "[\n]",
	} {
		sameAsEncodingJSON(t, text)
	}
}

func TestValueAbsent(t *testing.T) {
	var absent Value
	if absent.Kind() != KindAbsent || absent.Given() || absent.IsTrue() || absent.Is("") {
		t.Error("a value that is not there seems to be there")
	}
	if null := Value("null"); null.Given() || null.Kind() != KindNull {
		t.Error("null counts as given")
	}
}

func FuzzValue(f *testing.F) {
	f.Add(`{"a":["\ud83d\ude00",{"b":"\\\""},[]],"\u0061":null}`)
	f.Add(`"\\\\"`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := check([]byte(text), maxDepth); err == nil {
			sameAsEncodingJSON(t, text)
		}
	})
}

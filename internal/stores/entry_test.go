package stores

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// FuzzDecode reads arbitrary data. A valid entry must be usable, and the same
// after it was stored and read again.
func FuzzDecode(f *testing.F) {
	whole := &Entry{User: "u", Previous: "resp_1", Response: json.RawMessage(`{"a":"<&>\u2028"}`), Input: []json.RawMessage{[]byte("1")}, Output: []json.RawMessage{[]byte(`"<&>\u2028"`), []byte("2")}}
	for _, e := range []*Entry{whole, {Response: json.RawMessage("{}")}} {
		f.Add(stored(f, e))
	}
	for _, text := range []string{`{"response":{},"input":null,"output":[null]}`, `{"response":[1],"output":[{"a":1},3]}`, `{"user":"\ud800","response":1,"input":{"a":[]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := Decode(data)
		if e == nil {
			return
		}
		for item := range e.Items() {
			if !json.Valid(item) {
				t.Fatalf("item %q", item)
			}
		}
		again := Decode(stored(t, e))
		if again == nil || again.User != e.User || again.Previous != e.Previous || len(again.Output) != len(e.Output) {
			t.Fatalf("%+v became %+v", e, again)
		}
		var decoded Entry
		if err := json.Unmarshal(stored(t, e), &decoded); err != nil || !reflect.DeepEqual(again.Response, decoded.Response) || !reflect.DeepEqual(again.Input, decoded.Input) {
			t.Fatalf("encoding/json reads %+v, not %+v; %v", decoded, again, err)
		}
	})
}

// TestDeepEntry: an entry that was modified cannot exhaust the stack.
func TestDeepEntry(t *testing.T) {
	deep := strings.Repeat("[", MaxEntry-100)
	for _, data := range []string{`{"response":` + deep, `{"response":"` + deep + `","output":[` + deep} {
		if Decode([]byte(data)) != nil {
			t.Errorf("%.100s is an entry", data)
		}
	}
	if Decode([]byte(`{"response":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+"}")) == nil {
		t.Error("200 levels are too many")
	}
}

// stored returns an entry as JSON.
func stored(t testing.TB, e *Entry) []byte {
	t.Helper()
	data, err := Encode(e)
	if err != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	return data
}

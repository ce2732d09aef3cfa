package recorder

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// TestFormat checks that what is formatted is read as it was, one entry on a line.
func TestFormat(t *testing.T) {
	entries := []Entry{
		{Dir: FromClient, Message: json.RawMessage("{\n \"a\": [1,\n2]\n}")},
		{At: Millis(1234567 * time.Nanosecond), Dir: ToServer, Choice: 2, Message: json.RawMessage(`{"id":1}`)},
		{At: Millis(time.Hour), Dir: Read, Lines: 3, Note: "closed"},
		{Dir: ToClient, Took: Millis(time.Second), Text: "data: {\"a\":\"\\n<é\"}\n\n"},
		{Dir: End},
	}
	text := format(entries)
	entries[0].Message, entries[1].At = json.RawMessage(`{  "a": [1, 2] }`), Millis(1235*time.Microsecond)
	parsed, err := Parse(text)
	if err != nil || !reflect.DeepEqual(parsed, entries) {
		t.Errorf("%s\nis read as %+v, %v, want %+v", text, parsed, err, entries)
	}
	for i := range entries { // in the same form as encoding/json
		one, _ := json.Marshal(&entries[i])
		var want, got any
		_ = json.Unmarshal(one, &want)
		if json.Unmarshal(format(entries[i:i+1]), &got); !reflect.DeepEqual(got, want) {
			t.Errorf("got %s, want %s", format(entries[i:i+1]), one)
		}
	}
}

package codexrpc

import (
	"encoding/json"
	"testing"
)

func TestParseMessage(t *testing.T) {
	for line, want := range map[string]message{
		`{"id":1,"result":{}}`:                                {id: "1"},
		`{"result":{},"id":"a"}`:                              {id: `"a"`},
		`{"id":7,"method":"item/tool/call","params":{}}`:      {id: "7", method: "item/tool/call"},
		`{"method":"error"}`:                                  {method: "error"},
		`{"m\u0065thod":"turn\/started"}`:                     {method: "turn/started"},
		`{"jsonrpc":"2.0","method":"a","future":[{}]}`:        {method: "a"},
		`{"id":null,"method":"a"}`:                            {method: "a"},
		` {"id" : 1 , "error" : {"code" : -32600} } `:         {id: "1"},
		`{"params":{"id":9,"method":"inner"},"method":"out"}`: {method: "out"},
	} {
		got, err := parseMessage([]byte(line))
		if err != nil || got.id != want.id || got.method != want.method || got.size != len(line) {
			t.Errorf("%s: %q %q %d (%v)", line, got.id, got.method, got.size, err)
		}
	}
}

// TestParsedMessageIsACopy checks that a message stays valid when the buffer of its
// line is reused.
func TestParsedMessageIsACopy(t *testing.T) {
	line := []byte(`{"id":1,"result":{"text":"kept"}}`)
	m, err := parseMessage(line)
	if err != nil {
		t.Fatal(err)
	}
	clear(line)
	if got := m.result.Get("text").Str; got != "kept" || m.id != "1" {
		t.Errorf("left of it is %q %q", m.id, got)
	}
}

// TestEncodeEscapesNoTags checks that only what JSON requires is escaped.
func TestEncodeEscapesNoTags(t *testing.T) {
	line, err := encode(outgoing{Method: "m", Params: map[string]string{"text": "<use_tool> & “quotes”\n"}})
	if want := `{"method":"m","params":{"text":"<use_tool> & “quotes”\n"}}`; err != nil || string(line) != want {
		t.Errorf("wrote %s (%v)", line, err)
	}
	if cap(line) == len(line) {
		t.Error("no room for the line's end: the transport would copy the message")
	}
}

func TestEncodeInjectedItems(t *testing.T) {
	params := injectParams{`thr "1"`, []json.RawMessage{
		json.RawMessage(`{"text":"<b> & \n é"}`), json.RawMessage("{\r\n  \"b\": [1,\n 2]\n}"), json.RawMessage(` {} `),
	}}
	line, err := encodeCall("5", methodThreadInject, params)
	want := `{"id":5,"method":"thread/inject_items","params":{"threadId":"thr \"1\"","items":[{"text":"<b> & \n é"},{"b":[1,2]}, {} ]}}`
	if err != nil || string(line) != want {
		t.Errorf("wrote %s (%v)\nwant  %s", line, err, want)
	}
	if !json.Valid(line) || cap(line) == len(line) {
		t.Error("it is not JSON, or has no room for the line's end")
	}
	if line, err := encodeCall("6", methodThreadInject, injectParams{"t", nil}); err != nil || !json.Valid(line) {
		t.Errorf("without items: %s (%v)", line, err)
	}
}

package fakecodex

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestRefusals checks that wrong calls are refused as by Codex.
func TestRefusals(t *testing.T) {
	reader, client := lines(t)
	for _, test := range []struct{ call, want string }{
		{`{"id":1,"method":"model/list","params":{}}`, "Not initialized"},
		{`{"id":2,"method":"initialize","params":{"clientInfo":{"name":"x"}}}`, ""},
		{`{"id":3,"method":"future/thing","params":{}}`, "unknown variant"},
		{`{"id":4,"method":"turn/start","params":{"threadId":"none","input":[]}}`, "thread not found"},
		{`{"id":5,"method":"thread/start","params":{}}`, ""},
		{`{"id":6,"method":"turn/interrupt","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":""}}`, "no active turn"},
	} {
		client(test.call)
		answer := gjson.Parse(reader())
		if message := answer.Get("error.message").Str; !strings.Contains(message, test.want) || (message == "") != (test.want == "") {
			t.Errorf("%s was answered with %s", test.call, answer.Raw)
		}
	}
	client(`{"id":7,"method":"turn/start","params":{"threadId":"00000000-0000-7000-8000-000000000001","input":[]}}`)
	client(`{"id":8,"method":"turn/interrupt","params":{"threadId":"00000000-0000-7000-8000-000000000001","turnId":"another"}}`)
	for {
		if answer := gjson.Parse(reader()); answer.Get("id").Int() == 8 {
			if !answer.Get("error").Exists() {
				t.Errorf("a turn of another id was interrupted: %s", answer.Raw)
			}
			return
		}
	}
}

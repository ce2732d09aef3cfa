package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const testSchema = `{
	"definitions": {
		"v2": {"Params": {"type": "object", "properties": {
			"threadId": {"type": "string"}, "input": {"type": "array", "items": {"$ref": "#/definitions/v2/Input"}},
			"config": {"type": "object", "additionalProperties": true}, "any": true
		}}, "Input": {"oneOf": [
			{"type": "object", "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}},
			{"type": "object", "properties": {"type": {"enum": ["image"]}, "url": {"type": "string"}}}
		]}}
	},
	"oneOf": [{"properties": {"method": {"enum": ["turn/start"]}, "params": {"$ref": "#/definitions/v2/Params"}}}]
}`

// TestSchema checks which members of messages are reported as missing.
func TestSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(path, []byte(testSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := readDocument(path)
	if err != nil {
		t.Fatal(err)
	}
	u := &usage{names: map[string]bool{"new": true}}
	for _, test := range []struct{ direction, method, params, want string }{
		{"to_server", "turn/start", `{"threadId":"a","input":[{"type":"text","text":"b"},{"url":"c"}],"config":{"x":{"y":1}},"any":{"z":1}}`, ""},
		{"to_server", "turn/start", `{"new":1,"input":[{"detail":"low"}]}`, "turn/start input detail, turn/start new"},
		{"from_server", "turn/start", `{"new":1,"other":2}`, "turn/start new"},
		{"to_server", "turn/stop", `{}`, "turn/stop"},
		{"from_server", "turn/stop", `{}`, ""}, // nothing reads it
		{"to_server", "turn/stop", ``, ""},
	} {
		m := recorded{Dir: test.direction}
		m.Message.Method, m.Message.Params = test.method, json.RawMessage(test.params)
		missing := make(map[string]bool)
		u.compare(m, map[string]*document{"ClientRequest": d, "ClientNotification": {}, "ServerRequest": {}, "ServerNotification": d}, missing)
		var got []string
		for name := range missing {
			got = append(got, name)
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s %s %s: %q, want %q", test.direction, test.method, test.params, got, test.want)
		}
	}
}

// TestUsed checks that the source and the recordings are understood.
func TestUsed(t *testing.T) {
	t.Chdir("../../../..")
	u, err := readUsed()
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"thread/start", "turn/start", "item/agentMessage/delta", "server/diagnostics"} {
		if !slices.Contains(u.methods, method) {
			t.Errorf("%s is not used", method)
		}
	}
	if slices.Contains(u.methods, "encoding/json") || !u.flags["shell_tool"] || !u.names["threadId"] {
		t.Errorf("%q, %v", u.methods, u.flags)
	}
}

// TestTable checks that a row is replaced or added in the order of the releases.
func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "releases.md")
	const head, tail = "# Title\n\n| release | a | b | c |\n| --- | --- | --- | --- |\n", "\nThe end.\n"
	if err := os.WriteFile(path, []byte(head+"| 0.99.0 | old |\n| 0.160.0 | old |\n"+tail), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []row{
		{release: "0.160.0", missing: []string{"m"}, features: []string{"f: removed", "g: unknown"}, tests: &result{passed: 2, failed: []string{"TestX"}, unfinished: []string{"TestY"}}},
		{release: "0.169.0", tests: &result{passed: 3}},
		{release: "0.100.1"},
	} {
		if err := r.write(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	want := head + "| 0.169.0 | none | none | 3 of 3 |\n| 0.160.0 | `m` | `f: removed`, `g: unknown` | 2 of 4; failed: `TestX`; when the time was over: `TestY` |\n" +
		"| 0.100.1 | none | none | not run |\n| 0.99.0 | old |\n" + tail
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

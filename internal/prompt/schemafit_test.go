package prompt

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/codexschema"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// missing says what of a schema a model does not know that gets what fitSchema returns
// for it, by way of Codex.
func missing(schema, fitted []byte, words string) error {
	offered, err := codexschema.Offered(fitted)
	if err != nil {
		return fmt.Errorf("Codex refuses %s: %w", fitted, err)
	}
	return codexschema.Missing(schema, offered, words)
}

// TestFit: what Codex gets, and what the model is told beside it.
func TestFit(t *testing.T) {
	for name, c := range map[string]struct{ schema, fitted, words string }{
		"constraints of an argument": {
			`{"type":"object","properties":{"limit":{"type":"integer","minimum":1,"maximum":100,"default":10,"description":"How many."}},"required":["limit"]}`,
			`{"type":"object","properties":{"limit":{"type":"integer","description":"How many."}},"required":["limit"]}`,
			"\n- limit: minimum 1, maximum 100, default 10",
		},
		"nested ones": {
			`{"type":"object","properties":{"edits":{"type":"array","minItems":1,"maxItems":9,"items":{"type":"object","properties":{"line":{"type":"integer","minimum":1}}}},"env":{"type":"object","additionalProperties":{"type":"string","maxLength":9}},"id":{"anyOf":[{"type":"string","format":"uuid"},{"type":"null"}],"default":null}}}`,
			`{"type":"object","properties":{"edits":{"type":"array","minItems":1,"items":{"type":"object","properties":{"line":{"type":"integer"}}}},"env":{"type":"object","additionalProperties":{"type":"string"}},"id":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`,
			"\n- edits: maxItems 9\n- edits[].line: minimum 1\n- env.*: maxLength 9\n- id: default null\n- id{anyOf 0}: format \"uuid\"",
		},
		"definitions": {
			`{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z]+$"},"next":{"$ref":"#/$defs/Node"}}}}}`,
			`{"type":"object","properties":{"root":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"name":{"type":"string"},"next":{"$ref":"#/$defs/Node"}}}}}`,
			"\n- {$defs Node}.name: pattern \"^[a-z]+$\"",
		},
		"the types of values": {
			`{"type":"object","properties":{"a":{"const":5},"b":{"enum":[1,2.5,"x",null,true,[],{}]},"c":{"const":null},"d":{"enum":[1,2]},"e":{"const":"x"}}}`,
			`{"type":"object","properties":{"a":{"type":"integer","const":5},"b":{"type":["integer","number","string","null","boolean","array","object"],"enum":[1,2.5,"x",null,true,[],{}],"items":{}},"c":{"type":"null","const":null},"d":{"type":"integer","enum":[1,2]},"e":{"type":"string","const":"x"}}}`,
			"",
		},
		"elements of any kind": {
			`{"type":"object","properties":{"a":{"type":"array"},"b":{"items":true},"c":true,"d":false,"e":{}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"array","items":{}},"c":{},"d":{},"e":{}}}`,
			"\n- d: not {}",
		},
		"an argument of any type": {
			`{"type":"object","properties":{"v":{"description":"Any value.","title":"The value"},"p":{"pattern":"^a"}}}`,
			`{"type":"object","properties":{"v":{},"p":{}}}`,
			"\n- v: description \"Any value.\", title \"The value\"\n- p: pattern \"^a\"",
		},
		"odd names": {
			`{"type":"object","properties":{"a.b[0]":{"type":"string","minLength":1},"":{"type":"string","x y":1}}}`,
			`{"type":"object","properties":{"a.b[0]":{"type":"string"},"":{"type":"string"}}}`,
			"\n- \"a.b[0]\": minLength 1\n- \"\": \"x y\" 1",
		},
		"what says nothing of the arguments": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","$id":"x","type":"object","properties":{"base_url":{"title":"Base URL","type":"string","enum":null},"size":{"title":"In bytes","type":"integer"}},"$comment":"x"}`,
			`{"type":"object","properties":{"base_url":{"type":"string"},"size":{"type":"integer"}}}`,
			"\n- size: title \"In bytes\"",
		},
		"no type": {
			`{"properties":{"a":{"properties":{"b":{"format":"date"}}},"c":{"minimum":0},"d":{"required":["x"]},"e":{"prefixItems":[{"type":"string"}]}},"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}}},"c":{"type":"number"},"d":{"type":"object","required":["x"]},"e":{"type":"array","items":{}}},"additionalProperties":false}`,
			"\n- a.b: format \"date\"\n- c: minimum 0\n- e: prefixItems [{\"type\":\"string\"}]",
		},
		"nothing at all": {`{}`, `{"type":"object"}`, ""},
		"keywords of a wrong shape": {
			`{"type":"object","properties":{"a":{"type":"string","required":true},"b":{"type":"array","items":[{"type":"string"}]},"c":{"type":"any"},"d":{"type":"array","items":{},"minItems":1.0}}}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"array","items":{}},"c":{},"d":{"type":"array","items":{}}}}`,
			"\n- a: required true\n- b: items [{\"type\":\"string\"}]\n- c: type \"any\"\n- d: minItems 1.0",
		},
	} {
		fitted, words := fitSchema([]byte(c.schema))
		if c.words != "" {
			c.words = keywordsHeader + c.words
		}
		if string(fitted) != c.fitted || words != c.words {
			t.Errorf("%s: got\n%s\n%s\nwant\n%s\n%s", name, fitted, words, c.fitted, c.words)
		}
		if err := missing([]byte(c.schema), fitted, words); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFitUnchanged: a schema of which Codex keeps all is left as it is.
func TestFitUnchanged(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{}}`,
		`{"type":"object","properties":{"query":{"type":"string","description":"What to look for."},"tags":{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1}},"required":["query"],"additionalProperties":false}`,
		`{"type":"object","properties":{"to":{"oneOf":[{"$ref":"#/$defs/A"},{"type":["string","null"]}]}},"$defs":{"A":{"type":"object","properties":{"all":{"allOf":[{"$ref":"#"}]}},"additionalProperties":{"type":"number"}}}}`,
	} {
		if fitted, words := fitSchema([]byte(schema)); string(fitted) != schema || words != "" {
			t.Errorf("%s became\n%s\n%s", schema, fitted, words)
		}
	}
}

// TestFitWhole: the whole schema is repeated where nothing less says it.
func TestFitWhole(t *testing.T) {
	many := strings.Repeat("x", 100)
	var properties, deep []string
	for i := range 60 {
		properties = append(properties, `"p`+string(rune('0'+i/10))+string(rune('0'+i%10))+`":{"type":"string","enum":["`+many+`"]}`)
		deep = append(deep, `{"type":"string","pattern":"^a"}`)
	}
	for name, schema := range map[string]string{
		"a reference in what is dropped": `{"type":"object","properties":{"a":{"not":{"$ref":"#/$defs/A"}}},"$defs":{"A":{"type":"string"}}}`,
		"a reference to what may move":   `{"type":"object","properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"string"}}}`,
		"a reference to an anchor":       `{"type":"object","properties":{"a":{"$ref":"#x"}},"$defs":{"A":{"$anchor":"x","type":"string"}}}`,
		"a schema that is none":          `{"type":"object","properties":{"a":"string"}}`,
		"lines that would be longer":     `{"type":"object","properties":{"a-name-that-is-long-and-makes-paths-long":{"anyOf":[` + strings.Join(deep, ",") + `]}}}`,
		"more than fits the budget":      `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`,
		"more than is taken apart":       `{"type":"object","properties":{"a":{"type":"string","default":"` + strings.Repeat("x", maxParsedBytes) + `"}}}`,
	} {
		fitted, words := fitSchema([]byte(schema))
		if words != wholeHeader+schema {
			t.Errorf("%s: %.300s", name, words)
		}
		if err := missing([]byte(schema), fitted, words); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFitDescriptions: of a schema that is too long because of its descriptions, these are told.
func TestFitDescriptions(t *testing.T) {
	long := strings.Repeat("All about it. ", 200)
	properties := func(a, b string) string {
		return `{"type":"object","properties":{"a":{"type":"string"` + a + `},"b":{"type":"object","properties":{"c":{"type":"string"` + b + `}}}},"description":"Root"}`
	}
	schema := properties(`,"description":"`+long+`"`, `,"description":"`+long+`"`)
	if len(schema) <= schemaBudget {
		t.Fatal("it is not too long")
	}
	fitted, words := fitSchema([]byte(schema))
	if want := strings.Replace(properties("", ""), `,"description":"Root"`, "", 1); string(fitted) != want {
		t.Errorf("Codex gets %s", fitted)
	}
	if want := keywordsHeader + "\n- (all): description \"Root\"\n- a: description \"" + long + "\"\n- b.c: description \"" + long + "\""; words != want {
		t.Errorf("the model is told %s", words)
	}
	if err := missing([]byte(schema), fitted, words); err != nil {
		t.Error(err)
	}
	// Up to the budget they stay.
	schema = properties(`,"description":"`+strings.Repeat("x", schemaBudget-len(properties(`,"description":""`, "")))+`"`, "")
	if fitted, words := fitSchema([]byte(schema)); string(fitted) != schema || words != "" {
		t.Errorf("%d bytes: %.100s %.100s", len(schema), fitted, words)
	}
}

// BenchmarkFit prepares the 25 tools of an agent.
func BenchmarkFit(b *testing.B) {
	text, err := os.ReadFile("../test/e2e/conversations/testdata/agent_tools.json")
	must.OK(b, err)
	var tools []struct{ Parameters json.RawMessage }
	must.OK(b, json.Unmarshal(text, &tools))
	size := 0
	for i := range tools {
		if tools[i].Parameters, err = json.Marshal(tools[i].Parameters); err != nil { // compacts
			b.Fatal(err)
		}
		size += len(tools[i].Parameters)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range tools {
			fitSchema(t.Parameters)
		}
	}
}

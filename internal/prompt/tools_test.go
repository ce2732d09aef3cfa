package prompt

import (
	"bytes"
	"strings"
	"testing"
)

// TestToolsTogether checks the bound of all tools of a request, at its edge.
func TestToolsTogether(t *testing.T) {
	tool := Tool{Name: "name", Description: strings.Repeat("d", maxToolBytes/4-104), Schema: bytes.Repeat([]byte{' '}, 100)}
	c := Conversation{Tools: []Tool{tool, tool, tool, tool}}
	if f := c.CheckTools(); f != nil || c.ToolBytes() != maxToolBytes {
		t.Errorf("%v, %d bytes", f, c.ToolBytes())
	}
	c.Tools[3].Name += "s"
	if f := c.CheckTools(); f == nil || !strings.Contains(f.APIError().Message, "4194305 bytes") || f.APIError().Param != "tools" {
		t.Errorf("one byte more: %v", f)
	}
}

func TestCustomInput(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input":"x\n"}`:           "x\n",
		`{"input":{"a": [1, "b"]}}`: `{"a": [1, "b"]}`,
		`{"input":[1,2]}`:           `[1,2]`,
		`{"input":[1],"more":2}`:    `{"input":[1],"more":2}`,
		`{"input":5}`:               `{"input":5}`,
		`{"other":"x"}`:             `{"other":"x"}`,
		`[1]`:                       `[1]`,
		`not JSON`:                  `not JSON`,
		``:                          ``,
	} {
		if got := CustomInput(arguments); got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}

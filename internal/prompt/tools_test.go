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

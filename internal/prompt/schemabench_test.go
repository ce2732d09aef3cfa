package prompt

import (
	"encoding/json"
	"os"
	"testing"
)

// BenchmarkFit prepares the 25 tools of an agent.
func BenchmarkFit(b *testing.B) {
	text, err := os.ReadFile("../test/e2e/conversations/testdata/agent_tools.json")
	if err != nil {
		b.Fatal(err)
	}
	var tools []struct{ Parameters json.RawMessage }
	if err := json.Unmarshal(text, &tools); err != nil {
		b.Fatal(err)
	}
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

package usetool

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRuns: the blocks that are counted are those that the client reads, after each byte; and
// none is read that would be one too many.
func TestRuns(t *testing.T) {
	parts := []string{"<use_tool>", "</use_tool>", "<use_tool >", "<name>", "</name>", "f", " ", "\n", "<", ">", "<name>f</name>", "<q>x</q>"}
	r := rand.New(rand.NewPCG(3, 1))
	for range 2000 {
		var built strings.Builder
		for range r.IntN(14) {
			built.WriteString(parts[r.IntN(len(parts))])
		}
		text := built.String()
		var runs Runs
		for i := range len(text) {
			if n := runs.Read(text[i:i+1], 99); n != 1 {
				t.Fatalf("%d bytes of %q were read", n, text[i:i+1])
			}
			if want := len(clientRead(text[:i+1])); runs.Count() != want {
				t.Fatalf("%d blocks are run of %q, want %d", runs.Count(), text[:i+1], want)
			}
		}
		var one Runs
		if n := one.Read(text, 1); one.Count() > 1 || n < len(text) && len(clientRead(text[:n+1])) != 2 {
			t.Fatalf("%q was read to %d", text, n)
		}
	}
}

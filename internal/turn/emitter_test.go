package turn

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestHeldOutputs checks that a call ends when too much waits for its end, and that what has waited
// follows it.
func TestHeldOutputs(t *testing.T) {
	m := New(&plainText)
	outputs := m.Feed([]codexrpc.Event{callBegun("a", "find"), part("a", `{"q":`)})
	if got, want := told(outputs), `{0:{"q":`; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	piece, waited := strings.Repeat("x", maxDelayedBytes/4), ""
	for len(waited) <= maxDelayedBytes {
		if outputs = m.Feed([]codexrpc.Event{delta("m", piece)}); len(outputs) > 0 && len(waited) < maxDelayedBytes/2 {
			t.Fatalf("%d outputs after %d bytes", len(outputs), len(waited))
		}
		if waited += piece; len(outputs) > 0 {
			break
		}
	}
	if got, want := told(outputs), "}"+waited; got != want {
		t.Errorf("%.80s… of %d bytes, want %d", got, len(got), len(want))
	}
	if outputs = m.Feed([]codexrpc.Event{part("a", `"1"}`), delta("m", "so")}); told(outputs) != "so" {
		t.Errorf("%s after the end", told(outputs))
	}
}

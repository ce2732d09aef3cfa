package turn

import (
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

// TestHeldOutputs checks that a picture ends when too much waits for its end, and that what has waited
// follows it.
func TestHeldOutputs(t *testing.T) {
	m := New(&Options{Pictures: true})
	outputs := m.Feed([]codexrpc.Event{pictureCall, pictureStarted})
	if got, want := saidWithPictures(outputs), "begun:c"; got != want {
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
	if len(outputs) == 0 || outputs[0].Kind != OutputPicture || told(outputs) != waited {
		t.Errorf("%d outputs with %d bytes, want %d", len(outputs), len(told(outputs)), len(waited))
	}
	if outputs = m.Feed([]codexrpc.Event{pictureMade(onePNG), delta("m", "so")}); told(outputs) != "so" {
		t.Errorf("%s after the end", told(outputs))
	}
}

package scriptedmodel

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestChunkWords: the deltas of ChunkWords are words with the space before them, and no long ones.
func TestChunkWords(t *testing.T) {
	if got := slices.Collect(chunks("One  two,\n\nthree. ", ChunkWords)); !slices.Equal(got, []string{"One", "  two,", "\n\nthree.", " "}) {
		t.Errorf("%q", got)
	}
	for _, text := range []string{strings.Repeat("日本", 50), strings.Repeat(" ", 100) + "x", "é", "\n"} {
		got := slices.Collect(chunks(text, ChunkWords))
		if strings.Join(got, "") != text {
			t.Errorf("%q became %q", text, got)
		}
		for _, piece := range got {
			if !utf8.ValidString(piece) || piece == "" || len(piece) > maxWord {
				t.Errorf("%q has the piece %q", text, piece)
			}
		}
	}
}

package scriptedmodel

import (
	"slices"
	"testing"
)

// TestChunks checks the size of deltas, and that no character is cut.
func TestChunks(t *testing.T) {
	for _, c := range []struct {
		size int
		text string
		want []string
	}{
		{4, "abcdefghij", []string{"abcd", "efgh", "ij"}},
		{1, "aß你👋", []string{"a", "ß", "你", "👋"}},
		{2, "aß你👋", []string{"a", "ß", "你", "👋"}},
		{3, "aß你👋", []string{"aß", "你", "👋"}},
		{5, "aß你👋", []string{"aß", "你", "👋"}},
		{7, "aß你👋", []string{"aß你", "👋"}},
		{ChunkAll, "aß你👋", []string{"aß你👋"}},
	} {
		if got := slices.Collect(chunks(c.text, c.size)); !slices.Equal(got, c.want) {
			t.Errorf("chunk=%d: %q, want %q", c.size, got, c.want)
		}
	}
}

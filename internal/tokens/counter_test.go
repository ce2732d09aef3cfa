package tokens

import (
	"errors"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/draw"
)

// TestCounter checks that texts have as many tokens as when each is counted as a whole, however
// long they are and wherever the pieces end.
func TestCounter(t *testing.T) {
	r := draw.Random(t)
	for i := range draw.Cases(50, 300) {
		piece := 1 + r.IntN(2000)
		if i == 0 {
			piece = counterPiece
		}
		c, want := newCounter(piece), 0
		for range 1 + r.IntN(3) {
			var text strings.Builder
			for size := r.IntN(3 * piece); text.Len() < size; {
				text.WriteString(randomText(r) + " and ")
			}
			if err := c.Add(text.String(), nil); err != nil {
				t.Fatal(err)
			}
			whole := NewLimit(0)
			whole.Whole(text.String())
			want += whole.Count()
		}
		if got := c.Count(); got != want {
			t.Fatalf("%d tokens, want %d", got, want)
		}
	}
}

// TestCounterPauses checks that a count pauses after each piece, ends with the error of a pause,
// and takes little memory.
func TestCounterPauses(t *testing.T) {
	text := strings.Repeat("some words and 123 numbers; ", 8*counterPiece/28)
	c, pauses, stop := NewCounter(), 0, errors.New("stop")
	err := c.Add(text, func() error {
		if pauses++; pauses == 3 {
			return stop
		}
		return nil
	})
	if err != stop || pauses != 3 {
		t.Errorf("%v after %d pauses", err, pauses)
	}
	c, pauses = NewCounter(), 0
	err = c.Add(text, func() error {
		pauses++
		return nil
	})
	if err != nil || pauses < 7 || pauses > 8 {
		t.Errorf("%v after %d pauses", err, pauses)
	}
	if cap(c.limit.text) > 4*counterPiece {
		t.Errorf("%d bytes are kept", cap(c.limit.text))
	}
	small := NewCounter()
	pauses = 0
	for range 3 * counterPiece / 16 {
		_ = small.Add("sixteen letters.", func() error { pauses++; return nil })
	}
	if pauses != 3 {
		t.Errorf("%d pauses of short texts", pauses)
	}
}

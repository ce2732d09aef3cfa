package tokens

import "math"

// Counter counts the tokens of texts. It counts a long text in pieces. So a long text takes no more
// memory than a short one, and other work can run between the pieces.
type Counter struct {
	limit      Limit // does the counting; its max is never reached
	pieceSize  int   // how many bytes are counted in one step
	sincePause int   // how many bytes were counted since the last pause
}

// counterPiece is how many bytes a [Counter] counts in one step, which takes some 40 ms.
const counterPiece = 64 << 10

// NewCounter returns a counter that has counted nothing yet.
func NewCounter() *Counter { return newCounter(counterPiece) }

func newCounter(pieceSize int) *Counter {
	return &Counter{limit: Limit{max: math.MaxInt / 2, maxKept: pieceSize}, pieceSize: pieceSize} // half of the largest int, so that sums do not overflow
}

// Add adds a text. If pause is not nil, Add calls pause after each 64 KiB or so of text; texts of
// earlier calls count as well. If pause returns an error, Add returns it. After an error the count
// is invalid.
func (c *Counter) Add(text string, pause func() error) error {
	for len(text) > 0 {
		n := min(len(text), c.pieceSize)
		c.limit.Add(text[:n])
		text = text[n:]
		if c.sincePause += n; c.sincePause >= c.pieceSize && pause != nil {
			c.sincePause = 0
			if err := pause(); err != nil {
				return err
			}
		}
	}
	c.limit.End()
	return nil
}

// Count returns the number of tokens in all added texts.
func (c *Counter) Count() int {
	c.limit.update(true)
	return c.limit.Count()
}

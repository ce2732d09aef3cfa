package turn

import (
	"iter"
	"math"
)

// budgetStep is how many tokens a turn takes from its budget at once, and how many bytes
// of text it looks ahead. A turn holds about twice as many tokens as it does not need.
const budgetStep = 1024

// fund takes tokens from the budget until n more bytes are certainly within the limit, as
// far as the budget has some and the request's own limit allows.
func (m *Machine) fund(n int) {
	for m.opts.Budget != nil && !m.limit.Fits(n) {
		want := budgetStep
		if m.opts.MaxTokens > 0 {
			want = min(want, m.opts.MaxTokens-m.funded)
		}
		if want <= 0 {
			return
		}
		got := m.opts.Budget.Take(want)
		m.limit.Raise(got)
		if m.funded += got; got < want {
			return
		}
	}
}

// Counted returns the tokens of the text and the calls that were counted for the limit.
func (m *Machine) Counted() int64 {
	if m.limit == nil {
		return m.usage.counted
	}
	m.limit.Whole("") // ends the text
	m.limit.Fits(math.MaxInt32)
	return int64(m.limit.Count())
}

// pieces cuts a text into pieces of up to budgetStep bytes.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := min(len(text), budgetStep)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

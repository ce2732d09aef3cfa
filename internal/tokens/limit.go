package tokens

// maxUncounted bounds the text that is kept without being counted, in bytes. Above this bound, text is
// counted even if the limit is far away.
const maxUncounted = 1 << 20

// Limit cuts texts at a total number of tokens. The texts come in pieces, and the limit holds none of
// them back.
//
// A token has at least one byte. So as long as the texts have no more bytes than tokens are left, Limit
// only keeps them. When they have more, it counts them together. Near the limit it counts each piece for
// itself. So the cut may lie a few tokens before the limit, since a token that spans two pieces counts twice.
// It seldom lies a token or two behind it: what follows white space can split its token.
type Limit struct {
	left      int    // how many tokens are left, without those of uncounted; negative: Whole went beyond the limit
	counted   int    // how many tokens were counted
	uncounted []byte // the output that was not counted yet
	ends      []int  // the ends of the texts in it
}

// NewLimit returns a limit of this number of tokens.
func NewLimit(tokens int) *Limit { return &Limit{left: tokens} }

// Raise raises the limit by a number of tokens.
func (l *Limit) Raise(tokens int) { l.left += tokens }

// Add adds the next piece of a text, and returns as much of it as the limit allows. exceeded is true if
// that is not all.
func (l *Limit) Add(piece string) (within string, exceeded bool) {
	if l.Fits(len(piece)) {
		l.uncounted = append(l.uncounted, piece...)
		return piece, false
	}
	for end := 0; end < len(piece); {
		part := FirstPart(piece[end:])
		n := countPart(part)
		if n > l.left {
			end += prefixLen(part, max(l.left, 0))
			l.take(max(l.left, 0)) // also if the last token is cut, since it ends within a rune
			return piece[:end], true
		}
		l.take(n)
		end += len(part)
	}
	return piece, false
}

// Whole adds a text that the caller outputs as a whole, even beyond the limit.
func (l *Limit) Whole(text string) {
	l.End()
	if !l.Fits(len(text)) {
		l.take(Count(text))
		return
	}
	l.uncounted = append(l.uncounted, text...)
	l.End()
}

// End ends a text. No token extends into the next text.
func (l *Limit) End() {
	if n := len(l.uncounted); n > 0 && (len(l.ends) == 0 || l.ends[len(l.ends)-1] < n) {
		l.ends = append(l.ends, n)
	}
}

// Fits reports whether n more bytes are certainly within the limit. To find out, it may count earlier
// output.
func (l *Limit) Fits(n int) bool {
	if len(l.uncounted) > 0 && len(l.uncounted)+n > min(l.left, maxUncounted) {
		l.count()
	}
	return len(l.uncounted)+n <= l.left
}

// Count returns the number of tokens of the output so far.
func (l *Limit) Count() int {
	l.count()
	return l.counted
}

// count counts the output that was not counted yet.
func (l *Limit) count() {
	start := 0
	for _, end := range append(l.ends, len(l.uncounted)) {
		l.take(Count(string(l.uncounted[start:end])))
		start = end
	}
	l.uncounted, l.ends = l.uncounted[:0], l.ends[:0]
}

// take counts n tokens.
func (l *Limit) take(n int) { l.left, l.counted = l.left-n, l.counted+n }

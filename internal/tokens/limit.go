package tokens

const (
	// maxUncounted bounds the text that is kept uncounted, in bytes, even if the limit is far away.
	maxUncounted = 1 << 20
	// maxOpen bounds the end of a text that is counted again with each piece, in bytes.
	maxOpen = 128
)

// Limit cuts texts, which come in pieces, at a total number of tokens, and holds none of them back.
//
// A token has at least one byte. So as long as the texts have no more bytes than tokens are left, Limit
// only keeps them. When they have more, it counts them together. Near the limit it counts each piece, with
// the word before it, which may have become another token. So the cut seldom depends on the pieces. The cut
// may be a token or two off if a piece splits a token whose beginning is out already. The cut may be too
// early in a text of more than maxOpen bytes without the end of a word.
type Limit struct {
	left      int    // how many tokens are left before uncounted; negative: Whole went beyond the limit
	counted   int    // how many tokens were counted
	uncounted []byte // the output that was not counted yet
	ends      []int  // the ends of the texts in uncounted
}

// NewLimit returns a limit of this number of tokens.
func NewLimit(tokens int) *Limit { return &Limit{left: tokens} }

// Raise raises the limit by a number of tokens.
func (l *Limit) Raise(tokens int) { l.left += tokens }

// Add adds the next piece, and returns as much as the limit allows. exceeded says that this is not all.
func (l *Limit) Add(piece string) (within string, exceeded bool) {
	if l.Fits(len(piece)) {
		l.uncounted = append(l.uncounted, piece...)
		return piece, false
	}
	alreadyOut := len(l.uncounted)
	text := string(l.uncounted) + piece
	rest := text
	for { // count all parts but the last, which a token may continue
		part := FirstPart(rest)
		n := countPart(part)
		if n > l.left {
			end := len(text) - len(rest) + prefixLen(part, max(l.left, 0))
			l.take(max(l.left, 0)) // also if the last token is cut, since it ends within a rune
			l.uncounted = l.uncounted[:0]
			return piece[:max(end-alreadyOut, 0)], true
		}
		if len(part) == len(rest) {
			break
		}
		l.take(n)
		rest = rest[len(part):]
	}
	l.uncounted = append(l.uncounted[:0], rest...)
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

// Fits reports whether n more bytes are certainly within the limit. It may count earlier output.
func (l *Limit) Fits(n int) bool {
	if len(l.uncounted) > 0 && len(l.uncounted)+n > min(l.left, maxUncounted) {
		l.count()
	}
	return len(l.uncounted)+n <= l.left
}

// Count returns the number of tokens of the output so far.
func (l *Limit) Count() int {
	l.count()
	return l.counted + Count(string(l.uncounted))
}

// count counts the uncounted output, except a last word that is open, since a token there may continue.
func (l *Limit) count() {
	start := 0
	for _, end := range l.ends {
		l.take(Count(string(l.uncounted[start:end])))
		start = end
	}
	last := string(l.uncounted[start:])
	closed := len(last) - openLen(last)
	l.take(Count(last[:closed]))
	l.uncounted, l.ends = append(l.uncounted[:0], last[closed:]...), l.ends[:0]
}

// openLen returns how many bytes at the end of a text may belong to a token that the next piece continues,
// or 0 if they are more than maxOpen.
func openLen(text string) int {
	for i := len(text) - 1; i > max(0, len(text)-maxOpen); i-- {
		if endsToken(text, i) {
			return len(text) - i
		}
	}
	if len(text) <= maxOpen {
		return len(text)
	}
	return 0
}

func (l *Limit) take(n int) { l.left, l.counted = l.left-n, l.counted+n }

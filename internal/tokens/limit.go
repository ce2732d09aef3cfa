package tokens

import "unicode/utf8"

const (
	// maxRun is the length, in bytes, above which a stretch of text without a
	// sure end of a token is parted anyway: into pieces of as many whole runes as
	// have room in it. So long words, as no language has them, are counted a
	// little otherwise than in one piece, but always alike.
	maxRun = 512
	// maxUncounted is the most text, in bytes, that is kept uncounted. Above, it
	// is counted even if the limit is far.
	maxUncounted = 1 << 20
)

// Limit lets texts through that have a number of tokens at most, all together.
// They come in pieces; what goes out does not depend on how they were cut.
//
// A token has a byte at least, so as many bytes as there are tokens left go
// out at once and are not counted before more have come. At the limit, up to
// maxRun bytes are held until it is certain where their tokens end. Each byte
// is counted once, and that of the text at the limit twice.
type Limit struct {
	max     int
	counted int // tokens; with calls it may be above max

	text   []byte // not counted yet
	passed int    // how much of text is out
	ends   []int  // where in text a text ends
	next   int    // the rune to look at next
	sure   int    // the last sure end of a token
	class  class  // of the rune before next
	done   int    // how much of text is counted
	cut    int    // where text is cut, if over
	over   bool
}

// NewLimit returns a limit of so many tokens.
func NewLimit(tokens int) *Limit { return &Limit{max: tokens} }

// Add takes the next piece of a text, and returns what of it, and of what was
// held, is to go out. Over says that it was the last: the rest of the text is
// beyond the limit.
func (l *Limit) Add(piece string) (out string, over bool) {
	if piece == "" || l.over {
		return "", l.over
	}
	at := len(l.text)
	l.text = append(l.text, piece...)
	l.countIf(len(l.text) > l.left())
	to := l.cut
	if !l.over {
		to = wholeRunes(l.text[:min(len(l.text), l.done+l.left())])
	}
	return l.pass(to, piece, at), l.over
}

// End ends a text, and returns what is left of it. The next one has tokens of
// its own.
func (l *Limit) End() (out string, over bool) {
	if l.over {
		return "", true
	}
	l.end()
	l.countIf(len(l.text) > l.left())
	to := l.cut
	if !l.over {
		to = len(l.text)
	}
	return l.pass(to, "", len(l.text)), l.over
}

// Whole counts a text that goes out whole, whatever the limit. The text before
// has to be at its end.
func (l *Limit) Whole(text string) {
	l.text = append(l.text, text...)
	l.passed = len(l.text)
	l.end()
	l.countIf(len(l.text) > l.left())
	l.drop()
}

// Full reports whether not a single token more has room. The text before has to
// be at its end.
func (l *Limit) Full() bool {
	l.countIf(len(l.text) >= l.left())
	l.drop()
	return l.left() <= 0
}

// Exceeded reports whether there were more tokens than the limit, which only a
// whole text can bring about. The text before has to be at its end.
func (l *Limit) Exceeded() bool {
	l.countIf(len(l.text) > l.left())
	l.drop()
	return l.left() < 0
}

// Count returns the tokens that went out, as far as they have been counted: all
// of them once the limit was reached.
func (l *Limit) Count() int { return l.counted }

// Held returns what is held, valid until the next call.
func (l *Limit) Held() []byte {
	if l.over {
		return nil
	}
	return l.text[l.passed:]
}

// left is how many tokens more may be counted.
func (l *Limit) left() int { return l.max - l.counted }

// end marks the end of a text.
func (l *Limit) end() {
	if n := len(l.ends); len(l.text) > 0 && (n == 0 || l.ends[n-1] < len(l.text)) {
		l.ends = append(l.ends, len(l.text))
	}
}

// pass returns the text up to an offset that is not out yet, of the piece that
// begins at another if it is all of that.
func (l *Limit) pass(to int, piece string, at int) (out string) {
	if to > l.passed {
		if l.passed >= at && to <= at+len(piece) {
			out = piece[l.passed-at : to-at]
		} else {
			out = string(l.text[l.passed:to])
		}
		l.passed = to
	}
	l.drop()
	return out
}

// drop forgets what is counted and out.
func (l *Limit) drop() {
	if l.done == 0 || l.over {
		return
	}
	if l.text = append(l.text[:0], l.text[l.done:]...); cap(l.text) > 2*maxUncounted {
		l.text = append([]byte(nil), l.text...)
	}
	l.passed -= l.done
	l.next -= l.done
	l.sure -= l.done
	l.done = 0
}

// countIf counts what can be counted, if it has to be.
func (l *Limit) countIf(needed bool) {
	if !needed && len(l.text) <= maxUncounted {
		return
	}
	for _, end := range l.ends {
		l.look(end, true)
		l.count(end)
		l.next, l.sure, l.class = end, end, classNone
	}
	l.ends = l.ends[:0]
	l.look(len(l.text), false)
	l.count(l.sure)
	if !l.over && l.done < len(l.text) && l.left() <= 0 {
		l.over, l.cut = true, l.done
	}
}

// look finds the sure ends of tokens, and makes those of runs that are too long.
func (l *Limit) look(end int, ended bool) {
	for l.next < end {
		r, size := utf8.DecodeRune(l.text[l.next:end])
		if size == 1 && !ended && !utf8.FullRune(l.text[l.next:end]) {
			return
		}
		c := classOf(r, size)
		switch {
		case boundaries[l.class][c]:
			l.sure = l.next
		case l.next+size-l.sure > maxRun:
			l.sure = l.next
			l.count(l.sure)
		}
		l.class = c
		l.next += size
	}
}

// count counts the text up to an offset.
func (l *Limit) count(to int) {
	if l.over || l.done == to {
		return
	}
	text := string(l.text[l.done:to])
	n := Count(text)
	if left := max(0, l.left()); n > left && to > l.passed {
		l.over = true
		l.cut = l.done + prefix(text, left)
		n = left
	}
	l.counted += n
	l.done = to
}

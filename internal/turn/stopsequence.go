package turn

import "strings"

// stopFilter ends a text, which comes in pieces, at the first stop sequence: the sequence that ends first
// and, of several that end at the same byte, the longest.
//
// The filter holds the end of the text where a sequence may begin, and searches it again with the
// next piece: with at most four sequences of 4 KiB, the work is linear.
type stopFilter struct {
	sequences     []string
	firstBytes    [256]bool // the bytes that sequences begin with
	held          string    // the text that is held, shorter than the longest sequence
	foundSequence string    // the last sequence that feed has found
}

// newStopFilter returns a filter for the sequences that are not empty, or nil if there are none.
func newStopFilter(sequences []string) (f *stopFilter) {
	for _, s := range sequences {
		if s != "" {
			if f == nil {
				f = new(stopFilter)
			}
			f.sequences = append(f.sequences, s)
			f.firstBytes[s[0]] = true
		}
	}
	return f
}

// feed reads the next piece, and returns text that cannot be a part of a stop sequence. If it finds a
// sequence, it sets f.foundSequence, returns the text before the sequence, and drops the text after it.
func (f *stopFilter) feed(piece string) (out string, found bool) {
	if f.held == "" && len(piece) <= shortPiece && !f.mayBegin(piece) {
		return piece, false
	}
	text := f.held + piece
	start, end, held := len(text), len(text)+1, ""
	for _, s := range f.sequences {
		first := strings.IndexByte(text, s[0])
		if first < 0 {
			continue
		}
		offset := strings.Index(text[first:], s)
		if offset < 0 {
			if n := overlap(text[first:], s); n > len(held) {
				held = s[:n] // the same bytes as the end of text; but a slice of text would keep all of text in memory
			}
			continue
		}
		from := first + offset
		if to := from + len(s); to < end || to == end && from < start {
			start, end, found, f.foundSequence = from, to, true, s
		}
	}
	if found {
		f.held = ""
		return text[:start], true
	}
	f.held = held
	return text[:len(text)-len(held)], false
}

// shortPiece is the size up to which looking at each byte is faster than searching, as for most deltas.
const shortPiece = 64

// mayBegin reports whether a sequence may begin in a piece.
func (f *stopFilter) mayBegin(piece string) bool {
	for i := range len(piece) {
		if f.firstBytes[piece[i]] {
			return true
		}
	}
	return false
}

// overlap returns the length of the longest suffix of text that is a proper prefix of s.
func overlap(text, s string) int {
	end := text[max(0, len(text)-len(s)+1):]
	for {
		at := strings.IndexByte(end, s[0])
		if at < 0 {
			return 0
		}
		if end = end[at:]; strings.HasPrefix(s, end) {
			return len(end)
		}
		end = end[1:]
	}
}

func (f *stopFilter) release() string {
	held := f.held
	f.held = ""
	return held
}

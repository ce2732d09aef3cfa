package turn

// stopFilter ends a text at the first of its sequences. It is fed the text in
// pieces, cut anywhere. Of sequences that overlap, the one that is complete
// first counts, as in a text that is being written; of two that are complete
// with the same byte, the longer one.
//
// What may be the beginning of a sequence is held back: fewer bytes than the
// longest one has. They need no buffer, since they are known from the sequence.
type stopFilter struct {
	sequences []stopSequence
	begins    [256]bool // the bytes with which one begins
	held      string    // the beginning of a sequence
}

// stopSequence follows one sequence through a text (Knuth, Morris and Pratt).
type stopSequence struct {
	text string
	back []int // for each beginning, the longest shorter one at its end
	at   int   // how much of the sequence is at the end of the text so far
}

// newStopFilter returns nil if there is nothing to look for.
func newStopFilter(sequences []string) *stopFilter {
	f := &stopFilter{}
	for _, text := range sequences {
		if text != "" {
			f.sequences = append(f.sequences, newStopSequence(text))
			f.begins[text[0]] = true
		}
	}
	if len(f.sequences) == 0 {
		return nil
	}
	return f
}

func newStopSequence(text string) stopSequence {
	s := stopSequence{text: text, back: make([]int, len(text))}
	for i := 1; i < len(text); i++ {
		s.step(text[i])
		s.back[i] = s.at
	}
	s.at = 0
	return s
}

// step takes the next byte of the text. It reports whether the sequence is
// complete with it.
func (s *stopSequence) step(b byte) bool {
	for s.at > 0 && s.text[s.at] != b {
		s.at = s.back[s.at-1]
	}
	if s.text[s.at] == b {
		s.at++
	}
	return s.at == len(s.text)
}

// feed takes the next piece of the text. What is to go out now is the text
// before, that was held, and then now, a part of the piece. If a sequence is
// found, this is all that precedes it, and the filter begins anew.
func (f *stopFilter) feed(piece string) (before, now string, found bool) {
	held, end := f.held, len(piece)
	for i := 0; i < len(piece); i++ {
		if f.held == "" {
			if i = f.next(piece, i); i == len(piece) {
				break
			}
		}
		if found = f.step(piece[i]); found {
			end = i + 1
			break
		}
	}
	out := len(held) + end - len(f.held)
	if found {
		f.reset()
	}
	if out < len(held) {
		return held[:out], "", found
	}
	return held, piece[:out-len(held)], found
}

// next returns the place of the next byte with which a sequence begins.
func (f *stopFilter) next(piece string, i int) int {
	for i < len(piece) && !f.begins[piece[i]] {
		i++
	}
	return i
}

// step takes a byte and holds the longest beginning of a sequence that it ends.
// It reports whether that is a whole one.
func (f *stopFilter) step(b byte) (found bool) {
	f.held = ""
	for i := range f.sequences {
		s := &f.sequences[i]
		complete := s.step(b)
		if complete && !found || complete == found && s.at > len(f.held) {
			f.held = s.text[:s.at]
		}
		found = found || complete
	}
	return found
}

// release ends the text, and returns what was held of it.
func (f *stopFilter) release() string {
	held := f.held
	f.reset()
	return held
}

func (f *stopFilter) reset() {
	f.held = ""
	for i := range f.sequences {
		f.sequences[i].at = 0
	}
}

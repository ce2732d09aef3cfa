package usetool

import "unicode/utf8"

// pending returns the number of pending bytes if those of text up to end,
// exclusive, are counted.
func (s *Scanner) pending(end int) int {
	return len(s.held) + end - s.start
}

// emit appends one segment to the result.
func (s *Scanner) emit(segment Segment) {
	s.out = append(s.out, segment)
}

// emitText returns the first n pending bytes as text. Held bytes are a segment of their
// own, so that the bytes after them need no copy, but for the rest of a rune that begins
// in the held bytes.
func (s *Scanner) emitText(n int) {
	if n > len(s.held) && len(s.held) > 0 {
		k := len(s.held)
		for k < n && !utf8.RuneStart(s.text[k-len(s.held)]) {
			k++
		}
		s.emitSegment(k)
		n -= k
	}
	if n > 0 {
		s.emitSegment(n)
	}
}

// emitSegment returns the first n pending bytes, at least one, as one segment.
func (s *Scanner) emitSegment(n int) {
	offset := s.at
	s.emit(Segment{Kind: SegmentText, Text: s.take(n), Offset: offset})
}

// take removes the first n pending bytes and returns them. Nothing is copied if
// nothing was held.
func (s *Scanner) take(n int) string {
	s.at += int64(n)
	if len(s.held) == 0 {
		s.start += n
		return s.text[s.start-n : s.start]
	}
	if more := n - len(s.held); more > 0 {
		s.held = append(s.held, s.text[:more]...)
		s.start = more
	}
	text := literal(s.held[:n])
	s.held = s.held[:copy(s.held, s.held[n:])]
	return text
}

// literal returns b as a string. The most frequent one, a begun opening tag,
// needs no memory.
func literal(b []byte) string {
	if len(b) <= len(blockOpener) && string(b) == blockOpener[:len(b)] {
		return blockOpener[:len(b)]
	}
	return string(b)
}

// holdBack returns how many of the pending bytes, at the end of a piece of
// text outside a block, must wait for more: those of a begun tag, or of a begun
// UTF-8 sequence.
func (s *Scanner) holdBack() int {
	if s.tag.state != tagIdle {
		return s.tag.n
	}
	var tail [utf8.UTFMax - 1]byte
	n := min(len(tail), s.pending(len(s.text)))
	part := s.text[max(s.start, len(s.text)-n):]
	copy(tail[:], s.held[len(s.held)-(n-len(part)):])
	copy(tail[n-len(part):], part)
	for i := n - 1; i >= 0; i-- {
		if utf8.RuneStart(tail[i]) {
			if utf8.FullRune(tail[i:n]) {
				return 0
			}
			return n - i
		}
	}
	return 0
}

// again scans everything pending once more, and returns the index of the last byte of text
// that was scanned. The bytes before must have been removed.
func (s *Scanner) again() int {
	if len(s.held) == 0 {
		return s.start - 1
	}
	text := s.text
	held := string(s.held)
	s.held = s.held[:0]
	// Nothing is held now, so this call does not end here again.
	s.scan(held)
	s.text, s.start = text, 0
	return -1
}

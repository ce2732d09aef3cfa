package scriptedmodel

import (
	"iter"
	"unicode/utf8"
)

// chunks cuts text between characters, as JSON strings need, into pieces of at most size bytes, but
// at least a character. With ChunkAll there is one piece; an empty text has none.
func chunks(text string, size int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := chunkLen(text, size)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

func chunkLen(text string, size int) int {
	if size == ChunkAll {
		return len(text)
	}
	_, n := utf8.DecodeRuneInString(text)
	for n < len(text) {
		_, more := utf8.DecodeRuneInString(text[n:])
		if n+more > size {
			break
		}
		n += more
	}
	return n
}

package scriptedmodel

import (
	"iter"
	"strings"
	"unicode/utf8"
)

// chunks cuts text between characters, as JSON strings need, into pieces of at most size bytes, but
// at least a character. With ChunkAll there is one piece, with ChunkWords one for each word, with the
// space before it. An empty text has none.
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

// maxWord bounds a delta of ChunkWords, in bytes, as some languages have no spaces.
const maxWord = 24

func chunkLen(text string, size int) int {
	switch size {
	case ChunkAll:
		return len(text)
	case ChunkWords:
		word := len(text) - len(strings.TrimLeft(text, blank))
		size = min(word+strings.IndexAny(text[word:]+" ", blank), maxWord)
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

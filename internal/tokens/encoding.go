// Package tokens limits texts to a number of tokens of o200k_base, the encoding of
// OpenAI's models since GPT-4o. Its vocabulary is part of the binary.
package tokens

import (
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// encoding returns the encoding, and creates it on its first use. That takes some 35 ms and 7 MiB.
// The encoding is safe for concurrent use.
//
// Releases 0.8.1 to 0.10.0 of the library split white space with several line breaks wrongly and
// lose the character DEL. TestPattern checks for that.
var encoding = sync.OnceValue(codec.NewO200kBase)

// Count returns the number of tokens in a text. Special tokens of the encoding, such
// as <|endoftext|>, count as text.
func Count(text string) int {
	n, err := encoding().Count(makeValid(text))
	if err != nil {
		return len(text) // this cannot happen; a text has at most as many tokens as bytes
	}
	return n
}

// makeValid replaces each invalid byte by one valid byte. The library reads runes, so an invalid
// byte would become a longer rune.
func makeValid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	b := []byte(text)
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			b[i] = 0
		}
		i += size
	}
	return string(b)
}

// prefixLen returns the length in bytes of the first n tokens of a text, without an incomplete rune
// at the end.
func prefixLen(text string, n int) int {
	_, all, _ := encoding().Encode(makeValid(text)) // Encode cannot fail
	length := 0
	for _, token := range all[:min(n, len(all))] {
		length += len(token)
	}
	return wholeRunesLen(text[:length])
}

// wholeRunesLen returns the length in bytes of a text without an incomplete rune at its end.
func wholeRunesLen[T string | []byte](text T) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(string(text[i:])) {
				return i
			}
			break
		}
	}
	return len(text)
}

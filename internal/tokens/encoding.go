package tokens

import (
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// encoding is made when the first text has to be counted, and then kept: it
// takes some 35 ms and 7 MiB. It may be used by several goroutines at once.
//
// Releases 0.8.1 to 0.10.0 of the library part white space with several line
// breaks wrongly and lose DEL; TestPattern tells whether a later one does.
var encoding = sync.OnceValue(codec.NewO200kBase)

// Count returns the number of tokens of a text. What looks like one of the
// encoding's special tokens is text.
func Count(text string) int {
	n, err := encoding().Count(valid(text))
	if err != nil {
		return len(text) // never: no time limit is set. There cannot be more
	}
	return n
}

// valid replaces each byte that is not UTF-8 by one that is, since the library
// reads runes: the length of a text and of its tokens must not change.
func valid(text string) string {
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

// prefix returns the length of the first n tokens of a text, in bytes, without
// a rune that they cut.
func prefix(text string, n int) int {
	_, all, err := encoding().Encode(valid(text))
	if err != nil {
		return wholeRunes(text[:min(n, len(text))])
	}
	length := 0
	for _, token := range all[:min(n, len(all))] {
		length += len(token)
	}
	return wholeRunes(text[:length])
}

// wholeRunes returns the length of a text without a rune that is cut at its
// end.
func wholeRunes[T string | []byte](text T) int {
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

// Package tokens limits texts to a number of tokens of o200k_base, the encoding of
// OpenAI's models since GPT-4o. Its vocabulary is part of the binary.
package tokens

import (
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// encoding returns the encoding, and creates it on its first use. That takes some 35 ms and 7 MiB.
// The encoding is safe for concurrent use.
//
// Releases 0.8.1 to 0.10.0 of the library split white space with several line breaks wrongly and
// lose the character DEL. TestPattern checks for that.
var encoding = sync.OnceValue(codec.NewO200kBase)

// maxPart bounds the text that the encoding gets at once, in bytes: its time grows with the square of a
// word's length. No language has words that long.
const maxPart = 1 << 10

// Count returns the number of tokens in a text, in linear time. Special tokens, such as <|endoftext|>,
// count as text. Words of more than maxPart bytes are counted in parts, a little inexactly.
func Count(text string) (n int) {
	for text != "" {
		part := FirstPart(text)
		n += countPart(part)
		text = text[len(part):]
	}
	return n
}

func countPart(part string) int {
	n, err := encoding().Count(makeValid(part))
	if err != nil {
		return len(part) // this cannot happen; a text has at most as many tokens as bytes
	}
	return n
}

// FirstPart returns the beginning of a text, at most maxPart bytes. If the text is longer, the part ends
// after a word or a number, where a token always ends, unless the part has no such place.
func FirstPart(text string) string {
	part := Prefix(text, maxPart)
	for i := len(part) - 1; len(part) < len(text) && i > 0; i-- {
		if endsToken(part, i) {
			return part[:i]
		}
	}
	return part
}

// endsToken reports whether a token always ends before text[i]: it is behind an ASCII word or number.
func endsToken(text string, i int) bool {
	b := text[i]
	return isWord(text[i-1]) && !isWord(b) && b != '\'' && b < utf8.RuneSelf // it's is one token
}

func isWord(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' }

// Prefix returns the first n bytes of a text (n >= utf8.UTFMax), less an incomplete rune at the end.
func Prefix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:n-wirejson.PartialRune(wirejson.View(text[:n]))]
}

// makeValid replaces each invalid byte by one valid byte, since the library would make it a longer rune.
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

// prefixLen returns how many bytes the first n tokens have, without an incomplete rune at the end.
func prefixLen(text string, n int) int {
	_, all, _ := encoding().Encode(makeValid(text)) // Encode cannot fail
	length := 0
	for _, token := range all[:min(n, len(all))] {
		length += len(token)
	}
	return length - wirejson.PartialRune(wirejson.View(text[:length]))
}

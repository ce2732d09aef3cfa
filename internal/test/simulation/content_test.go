package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// The contents of all requests and answers are derived from tokens, so that each
// piece of them says whose it is and where it belongs.

// tokenPrefix begins every token; the end of one is tokenEnd.
const (
	tokenPrefix = "sim-"
	tokenEnd    = "!"
)

// fills are what is between the places of a text: letters of one to four bytes,
// escapes of JSON, and the beginnings of tags.
var fills = []string{" ", "é", "漢字", "🙂", `"`, `\`, "\n", "<use", "</", "&amp;", "\t", "\u2028", "{}", "data: "}

// text is a text of n bytes at most, short of it by less than a letter.
func text(of string, n int) string {
	var b strings.Builder
	random := randomOf(of)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s.%d%s", of, i, fills[random.IntN(len(fills))])
	}
	cut := b.String()[:n]
	for cut != "" && !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut
}

// randomOf is a source of numbers that a name gives.
func randomOf(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// pieces parts a text into deltas of so many bytes at most, at letters.
func pieces(random *rand.Rand, text string, most int) (parts []string) {
	for text != "" {
		n := min(len(text), 1+random.IntN(most))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return parts
}

// prompt is what the user says in a request: the token and a text of its own.
func prompt(token string, n int) string { return token + tokenEnd + text(token+".prompt", n) }

// tokenOf finds the token of a prompt.
func tokenOf(prompt string) string {
	token, _, found := strings.Cut(prompt, tokenEnd)
	if !found || !strings.HasPrefix(token, tokenPrefix) {
		return ""
	}
	return token
}

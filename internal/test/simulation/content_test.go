package simulation

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// All contents are derived from tokens, so that each piece shows its request and place.

// Every token begins with tokenPrefix and ends with tokenEnd.
const (
	tokenPrefix = "sim-"
	tokenEnd    = "!"
)

// fills are pieces between a text's numbers: letters of 1 to 4 bytes, JSON escapes, starts of tags.
var fills = []string{" ", "é", "漢字", "🙂", `"`, `\`, "\n", "<use", "</", "&amp;", "\t", "\u2028", "{}", "data: "}

// text returns a text of n bytes, or a little less so as not to cut a letter.
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

// randomOf returns a source of random numbers seeded by a name.
func randomOf(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// pieces splits a text between letters into deltas of at most most bytes.
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

// prompt returns the user's message of a request: the token and a text.
func prompt(token string, n int) string { return token + tokenEnd + text(token+".prompt", n) }

// tokenOf returns the token of a prompt.
func tokenOf(prompt string) string {
	token, _, found := strings.Cut(prompt, tokenEnd)
	if !found || !strings.HasPrefix(token, tokenPrefix) {
		return ""
	}
	return token
}

package tokens

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestPattern checks the tokens of texts for each alternative of the encoding's
// pattern. They are those of OpenAI's tiktoken.
func TestPattern(t *testing.T) {
	for text, want := range map[string][]string{
		"Hello world":          {"Hello", " world"},
		"it's WE'LL":           {"it's", " WE", "'", "LL"},
		"camelCase":            {"camel", "Case"},
		"1234567":              {"123", "456", "7"},
		"so!//\n x":            {"so", "!", "//\n", " x"},
		"x\n \n  y":            {"x", "\n \n", " ", " y"},
		"x\n\n \n\n y":         {"x", "\n\n \n\n", " y"},
		"a \n b":               {"a", " \n", " b"},
		"a\x7fb":               {"a", "\x7f", "b"},
		"<|endoftext|>":        {"<", "|", "end", "of", "text", "|", ">"},
		"</use_tool><use_tool": {"</", "use", "_tool", "><", "use", "_tool"},
	} {
		if got := tokensOf(t, text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if n := Count(text); n != len(want) {
			t.Errorf("%q: %d tokens, want %d", text, n, len(want))
		}
	}
}

// TestNothingLost checks that the tokens of every rune are that rune, in the planes of scripts and
// symbols. Short texts are faster: the library's time grows with the square of a word.
func TestNothingLost(t *testing.T) {
	const step = 1 << 5
	for from := rune(0); from < 0x20000; from += step {
		var b strings.Builder
		for r := range rune(step) {
			b.WriteRune(from + r)
		}
		if text := b.String(); strings.Join(tokensOf(t, text), "") != text {
			t.Errorf("the tokens of %U to %U are not these runes", from, from+step-1)
		}
	}
}

// TestInvalid checks that invalid bytes have tokens and keep their length.
func TestInvalid(t *testing.T) {
	for _, text := range []string{"\xff", "a\xf0\x9fb", "\x8f\x8f", "\xed\xa0\x80", "你\xe4\xbd"} {
		if n := len(strings.Join(tokensOf(t, text), "")); n != len(text) || Count(text) == 0 {
			t.Errorf("%q: the tokens have %d bytes", text, n)
		}
	}
}

// TestCountInParts checks that a long text has as many tokens as if the encoding got it at once. A long word may
// have some more.
func TestCountInParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var b strings.Builder
		for size := r.IntN(4 * maxPart); b.Len() < size; {
			b.WriteString(randomText(r))
			b.WriteString([]string{" and ", `{"type":"string"}`, "it's", "\n7,"}[r.IntN(4)])
		}
		if text := b.String(); Count(text) != len(tokensOf(t, text)) {
			t.Fatalf("%q: %d tokens, want %d", text, Count(text), len(tokensOf(t, text)))
		}
	}
	for _, word := range []string{"你好", "long", "👋🏽", "\xff", "--<>", "\n \n"} {
		text := strings.Repeat(word, 3*maxPart/len(word))
		if n, want := Count(text), len(tokensOf(t, text)); n < want || n > want+want/50+3 {
			t.Errorf("%q: %d tokens, want about %d", word, n, want)
		}
	}
}

package tokens

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// pieces are the parts of random texts. They have runes of all classes and special
// cases of the encoding's pattern.
var pieces = []string{
	"a", "word", "Word", "WORD", "camelCase", "é", "ß", "ǅ", "ʰ", "你好", "สวัสดี", "नमस्ते", "\u0301", "\u20dd",
	" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u2028", "\u3000", "\u0085", "\v",
	"1", "12", "1234567", "½", "٣", "Ⅷ", "'", "'s", "'LL", "'ſ", "’s", "/", "//", "\n/", "!/\n",
	".", ",", "...", "!?", "(", "{\"", "\":", "</", "><", "。", "€", "^", "$", "👋🏽", "👨‍👩‍👧", "\u200b", "\ufeff", "\x00", "\x7f",
	"<|endoftext|>", "\xff", "\xf0\x9f", "\x8f", "\ufffd",
}

func randomText(r *rand.Rand) string { return strings.Join(randomPieces(r, 30), "") }

// randomPieces returns fewer than n pieces.
func randomPieces(r *rand.Rand, n int) []string {
	some := make([]string, r.IntN(n))
	for i := range some {
		some[i] = pieces[r.IntN(len(pieces))]
	}
	return some
}

// TestBoundaries checks that splitting a text at its boundaries changes no tokens:
// for every pair of pieces, and for longer texts.
func TestBoundaries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := func() string { return strings.Join(randomPieces(r, 3), "") }
	for _, a := range pieces {
		for _, b := range pieces {
			checkParts(t, some()+a+b+some())
		}
	}
	for range 1500 {
		checkParts(t, randomText(r))
	}
}

func checkParts(t *testing.T, text string) {
	t.Helper()
	var got []string
	for _, part := range parts(text) {
		got = append(got, tokensOf(t, part)...)
	}
	if want := tokensOf(t, text); !slices.Equal(got, want) {
		t.Fatalf("%q: split as %q, got %q, want %q", text, parts(text), got, want)
	}
}

// parts splits a text at its boundaries.
func parts(text string) (all []string) {
	start, before := 0, classNone
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		c := classOf(r, size)
		if boundaries[before][c] {
			all = append(all, text[start:i])
			start = i
		}
		before = c
		i += size
	}
	return append(all, text[start:])
}

func tokensOf(t testing.TB, text string) []string {
	_, all, err := encoding().Encode(makeValid(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// reference returns the beginning of a text with this number of tokens, by encoding
// all of it.
func reference(t testing.TB, text string, tokens int) (within string, over bool) {
	all := tokensOf(t, text)
	if len(all) <= tokens {
		return text, false
	}
	length := len(strings.Join(all[:tokens], ""))
	return text[:wholeRunesLen(text[:length])], true
}

// limited returns the output of a limit for a text in pieces.
func limited(l *Limit, text string, size func(left int) int) (within string, over bool) {
	var b strings.Builder
	for text != "" && !over {
		n := size(len(text))
		var out string
		out, over = l.Add(text[:n])
		b.WriteString(out)
		text = text[n:]
	}
	if over {
		return b.String(), true
	}
	out, over := l.End()
	b.WriteString(out)
	return b.String(), over
}

func cuts(r *rand.Rand) []func(int) int {
	return []func(int) int{
		func(left int) int { return left },
		func(int) int { return 1 },
		func(left int) int { return 1 + r.IntN(min(left, 12)) },
		func(left int) int { return 1 + r.IntN(left) },
	}
}

// checkLimit compares a limit with the reference for several ways to cut a text.
func checkLimit(t testing.TB, text string, tokens int, r *rand.Rand) {
	want, wantOver := reference(t, text, tokens)
	for _, cut := range cuts(r) {
		l := NewLimit(tokens)
		got, over := limited(l, text, cut)
		if got != want || over != wantOver {
			t.Fatalf("%q, %d tokens:\ngot  %q %v\nwant %q %v", text, tokens, got, over, want, wantOver)
		}
		if over && l.Count() != tokens {
			t.Fatalf("%q, %d tokens: counted %d", text, tokens, l.Count())
		}
	}
}

func TestLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 400 {
		text := randomText(r)
		checkLimit(t, text, 1+r.IntN(1+len(tokensOf(t, text))), r)
	}
	prose := strings.Repeat("The quick brown fox jumps over 1234 lazy dogs; it's Grüße 你好 👋🏽.\n", 20)
	for _, tokens := range []int{1, 10, 100, 300, 419, 420, 421, 1000} {
		checkLimit(t, prose, tokens, r)
	}
}

// TestLimitCutsRunes checks that the output has no part of a rune.
func TestLimitCutsRunes(t *testing.T) {
	for tokens, want := range map[int]string{1: "Hi", 2: "Hi ", 3: "Hi 👋", 4: "Hi 👋", 5: "Hi 👋🏽"} {
		if got, _ := limited(NewLimit(tokens), "Hi 👋🏽", func(int) int { return 1 }); got != want {
			t.Errorf("%d tokens: %q, want %q", tokens, got, want)
		}
	}
}

// TestLimitOfTexts checks that texts and calls share a limit, that calls are never
// cut, and that the output does not depend on how the texts were cut.
func TestLimitOfTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 250 {
		texts := make([]string, 1+r.IntN(6))
		for i := range texts {
			texts[i] = randomText(r)
		}
		calls := r.IntN(64)
		tokens := 1 + r.IntN(150)
		var want strings.Builder
		left := tokens
		for i, text := range texts {
			if text == "" {
				continue
			}
			if left <= 0 {
				break
			}
			if calls>>i&1 == 1 {
				want.WriteString(text)
				left -= len(tokensOf(t, text))
				continue
			}
			within, over := reference(t, text, left)
			want.WriteString(within)
			if left -= len(tokensOf(t, text)); over {
				break
			}
		}
		for _, cut := range cuts(r) {
			if got := limitedTexts(NewLimit(tokens), texts, calls, cut); got != want.String() {
				t.Fatalf("%q, calls %b, %d tokens:\ngot  %q\nwant %q", texts, calls, tokens, got, want.String())
			}
		}
	}
}

func limitedTexts(l *Limit, texts []string, calls int, cut func(int) int) string {
	var b strings.Builder
	for i, text := range texts {
		if text != "" && l.Full() {
			break
		}
		if calls>>i&1 == 1 {
			l.Whole(text)
			b.WriteString(text)
			if l.Exceeded() {
				break
			}
			continue
		}
		within, over := limited(l, text, cut)
		if b.WriteString(within); over {
			break
		}
	}
	return b.String()
}

// TestLongRuns checks that a run without boundaries is held up to a bound, and that
// its output does not depend on how it was cut.
func TestLongRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, filling := range []string{"a", "A", " ", "\n", "-", "9", "é", "你", "👋🏽", "aB", "\xff"} {
		text := strings.Repeat(filling, 3*maxRun/len(filling)+1) + " end"
		for _, tokens := range []int{1, 5, 100, 2000} {
			want, wantOver := limited(NewLimit(tokens), text, cuts(r)[0])
			for _, cut := range cuts(r)[1:] {
				if got, over := limited(NewLimit(tokens), text, cut); got != want || over != wantOver {
					t.Fatalf("%q, %d tokens: %d bytes %v, want %d %v", filling, tokens, len(got), over, len(want), wantOver)
				}
			}
			checkHeld(t, tokens, text)
		}
	}
}

func checkHeld(t *testing.T, tokens int, text string) {
	t.Helper()
	l := NewLimit(tokens)
	for i := range len(text) {
		if _, over := l.Add(text[i : i+1]); over {
			return
		}
		if n := len(l.Held()); n > maxRun+utf8.UTFMax {
			t.Fatalf("%q, %d tokens: %d bytes are held", text[:8], tokens, n)
		}
	}
}

// TestLazy checks that text far from the limit is output at once, and neither
// counted nor copied.
func TestLazy(t *testing.T) {
	l := NewLimit(40)
	text := strings.Repeat("Hello ", 4)
	for _, piece := range []string{text, text[:16]} {
		if out, over := l.Add(piece); out != piece || over || l.Count() != 0 {
			t.Errorf("%q %v, %d counted", out, over, l.Count())
		}
	}
	if _, _ = l.Add("o"); l.Count() == 0 {
		t.Error("nothing was counted")
	}
}

// TestKeptUncounted checks that the kept text is bounded if the limit is far away.
func TestKeptUncounted(t *testing.T) {
	l := NewLimit(1 << 40)
	l.maxKept = 1 << 16
	piece := strings.Repeat("word ", 1000)
	for range 14 {
		if out, over := l.Add(piece); out != piece || over {
			t.Fatal("not all came out at once")
		}
	}
	l.Whole(strings.Repeat(piece, 42))
	if len(l.text) > l.maxKept || cap(l.text) > 2*l.maxKept || l.Count() < 50_000 {
		t.Errorf("%d bytes are kept in %d; %d tokens", len(l.text), cap(l.text), l.Count())
	}
}

// FuzzLimit lets the fuzzer choose the text, the limit and the cuts.
func FuzzLimit(f *testing.F) {
	f.Add("it's 1234 words/\n  and 👋🏽", uint16(3), uint64(1))
	f.Fuzz(func(t *testing.T, text string, tokens uint16, seed uint64) {
		if len(text) > 1000 {
			return // longer texts find nothing new
		}
		for _, part := range parts(text) {
			if len(part) > maxRun-utf8.UTFMax {
				return // would be split elsewhere
			}
		}
		checkLimit(t, text, 1+int(tokens)%(1+len(text)), rand.New(rand.NewPCG(seed, 1)))
	})
}

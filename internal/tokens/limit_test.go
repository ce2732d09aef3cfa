package tokens

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// pieces are what texts are made of: all classes, and what the pattern of the
// encoding treats in a way of its own.
var pieces = []string{
	"a", "word", "Word", "WORD", "camelCase", "é", "ß", "ǅ", "ʰ", "你好", "สวัสดี", "नमस्ते", "\u0301", "\u20dd",
	" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u2028", "\u3000", "\u0085", "\v",
	"1", "12", "1234567", "½", "٣", "Ⅷ", "'", "'s", "'LL", "'ſ", "’s", "/", "//", "\n/", "!/\n",
	".", ",", "...", "!?", "(", "{\"", "\":", "</", "><", "。", "€", "^", "$", "👋🏽", "👨‍👩‍👧", "\u200b", "\ufeff", "\x00", "\x7f",
	"<|endoftext|>", "\xff", "\xf0\x9f", "\x8f", "\ufffd",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(30) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// TestBoundaries: to part a text at its sure ends changes none of its tokens.
func TestBoundaries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	parted := 0
	for range 5000 {
		text := randomText(r)
		var want, got []string
		want = tokensOf(t, text)
		for _, part := range parts(text) {
			got = append(got, tokensOf(t, part)...)
			parted++
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q: parted %q, got %q, want %q", text, parts(text), got, want)
		}
	}
	if parted < 20_000 {
		t.Errorf("only %d parts", parted)
	}
}

// parts parts a text at the sure ends of tokens.
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
	_, all, err := encoding().Encode(valid(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// reference is the beginning of a text that has so many tokens, told in the
// simplest way.
func reference(t testing.TB, text string, tokens int) (within string, over bool) {
	all := tokensOf(t, text)
	if len(all) <= tokens {
		return text, false
	}
	length := len(strings.Join(all[:tokens], ""))
	return text[:wholeRunes(text[:length])], true
}

// limited is what a limit lets through of a text in pieces.
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

// checkLimit compares a limit with the reference, however a text is cut.
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
	for range 1000 {
		text := randomText(r)
		checkLimit(t, text, 1+r.IntN(1+len(tokensOf(t, text))), r)
	}
	prose := strings.Repeat("The quick brown fox jumps over 1234 lazy dogs; it's Grüße 你好 👋🏽.\n", 20)
	for _, tokens := range []int{1, 10, 100, 300, 419, 420, 421, 1000} {
		checkLimit(t, prose, tokens, r)
	}
}

// TestLimitCutsRunes: a rune that the last token begins is not given.
func TestLimitCutsRunes(t *testing.T) {
	for tokens, want := range map[int]string{1: "Hi", 2: "Hi ", 3: "Hi 👋", 4: "Hi 👋", 5: "Hi 👋🏽"} {
		if got, _ := limited(NewLimit(tokens), "Hi 👋🏽", func(int) int { return 1 }); got != want {
			t.Errorf("%d tokens: %q, want %q", tokens, got, want)
		}
	}
}

// TestLimitOfTexts: texts and calls share a limit, each with tokens of its own;
// a call is never cut; and the sum does not depend on how the texts were cut.
func TestLimitOfTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
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

// TestLongRuns: a run without a sure end of a token is held up to a bound, and
// cut at the same place however it comes.
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

// TestLazy: what cannot have too many tokens is not counted, and goes out at
// once and uncopied.
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
	if allocs := testing.AllocsPerRun(100, func() { NewLimit(1000).Add(text) }); allocs > 2 {
		t.Errorf("%v allocations for a limit and its buffer", allocs)
	}
}

// TestKeptUncounted: however far the limit, what is kept is bounded.
func TestKeptUncounted(t *testing.T) {
	l := NewLimit(1 << 40)
	piece := strings.Repeat("word ", 10_000)
	for range 22 {
		if out, over := l.Add(piece); out != piece || over {
			t.Fatal("not all came out at once")
		}
	}
	l.Whole(strings.Repeat(piece, 42))
	if len(l.text) > maxUncounted || cap(l.text) > 2*maxUncounted || l.Count() < 500_000 {
		t.Errorf("%d bytes are kept in %d; %d tokens", len(l.text), cap(l.text), l.Count())
	}
}

// FuzzLimit lets the fuzzer choose the text, the limit and the cuts.
func FuzzLimit(f *testing.F) {
	f.Add("it's 1234 words/\n  and 👋🏽", uint16(3), uint64(1))
	f.Fuzz(func(t *testing.T, text string, tokens uint16, seed uint64) {
		if len(text) > 1000 {
			return // no more can be seen in longer ones
		}
		for _, part := range parts(text) {
			if len(part) > maxRun-utf8.UTFMax {
				return // parted anyway
			}
		}
		checkLimit(t, text, 1+int(tokens)%(1+len(text)), rand.New(rand.NewPCG(seed, 1)))
	})
}

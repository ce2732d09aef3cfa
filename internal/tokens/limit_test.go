package tokens

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-codex/caddy-codex/internal/wirejson"
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

func randomPieces(r *rand.Rand, n int) []string {
	some := make([]string, r.IntN(n))
	for i := range some {
		some[i] = pieces[r.IntN(len(pieces))]
	}
	return some
}

func tokensOf(t testing.TB, text string) []string {
	_, all, err := encoding().Encode(makeValid(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// reference returns the beginning of a text with this number of tokens, by encoding all of it.
func reference(t testing.TB, text string, tokens int) (within string, over bool) {
	all := tokensOf(t, text)
	if len(all) <= tokens {
		return text, false
	}
	length := len(strings.Join(all[:tokens], ""))
	return text[:length-wirejson.PartialRune(wirejson.View(text[:length]))], true
}

func limited(l *Limit, pieces []string) (within string, over bool) {
	var b strings.Builder
	for _, piece := range pieces {
		var out string
		out, over = l.Add(piece)
		if b.WriteString(out); over {
			break
		}
	}
	l.End()
	return b.String(), over
}

// inTokens returns a text in the pieces in which a model writes it: tokens, or whole runes of several tokens.
func inTokens(t testing.TB, text string) (all []string) {
	n := 0
	for _, token := range tokensOf(t, text) {
		if n += len(token); wirejson.PartialRune(wirejson.View(text[:n])) == 0 {
			all, text, n = append(all, text[:n]), text[n:], 0
		}
	}
	return append(all, text)
}

func inRunes(r *rand.Rand, text string, n int) (all []string) {
	start, runes := 0, 1+r.IntN(n)
	for i := range text {
		if runes--; runes < 0 {
			all, start, runes = append(all, text[start:i]), i, r.IntN(n)
		}
	}
	return append(all, text[start:])
}

// checkLimit compares a limit with the reference: the output of a text as a whole is the same. That of a text in
// pieces may differ by few tokens, since a piece may split a token that is out already.
func checkLimit(t testing.TB, text string, tokens int, r *rand.Rand) {
	t.Helper()
	want, _ := reference(t, text, tokens)
	if got := checkPieces(t, []string{text}, tokens); got != want {
		t.Fatalf("%q, %d tokens:\ngot  %q\nwant %q", text, tokens, got, want)
	}
	const few = 2
	for _, cut := range [][]string{inTokens(t, text), inRunes(r, text, 1), inRunes(r, text, 12), inRunes(r, text, 1+len(text))} {
		if got := checkPieces(t, cut, tokens); longer(t, got, want) > few || longer(t, want, got) > few {
			t.Fatalf("%q, %d tokens:\ngot  %q\nwant %q", cut, tokens, got, want)
		}
	}
}

// longer returns by how many tokens a text is longer than its beginning.
func longer(t testing.TB, text, beginning string) int {
	return len(tokensOf(t, strings.TrimPrefix(text, beginning))) * min(1, max(0, len(text)-len(beginning)))
}

// checkPieces checks what holds for every cut of a text, and returns the output.
func checkPieces(t testing.TB, pieces []string, tokens int) string {
	t.Helper()
	text := strings.Join(pieces, "")
	l := NewLimit(tokens)
	got, over := limited(l, pieces)
	if !strings.HasPrefix(text, got) || over == (got == text) || utf8.ValidString(text) && !utf8.ValidString(got) {
		t.Fatalf("%q, %d tokens: %q %v", pieces, tokens, got, over)
	}
	if l.Count() > tokens || over && l.Count() != tokens {
		t.Fatalf("%q, %d tokens: counted %d", pieces, tokens, l.Count())
	}
	return got
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
		want, _ := reference(t, prose, tokens)
		if got := checkPieces(t, inTokens(t, prose), tokens); got != want {
			t.Errorf("prose is cut after %q, want %q", got, want)
		}
	}
}

// TestLimitCutsRunes checks that the output has no part of a rune.
func TestLimitCutsRunes(t *testing.T) {
	for tokens, want := range map[int]string{1: "Hi", 2: "Hi ", 3: "Hi 👋", 4: "Hi 👋", 5: "Hi 👋🏽"} {
		if got, _ := limited(NewLimit(tokens), inTokens(t, "Hi 👋🏽")); got != want {
			t.Errorf("%d tokens: %q, want %q", tokens, got, want)
		}
	}
}

// TestLimitOfTexts checks that texts and calls share a limit, and that calls are never cut.
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
		if got := limitedTexts(NewLimit(tokens), texts, calls); got != want.String() {
			t.Fatalf("%q, calls %b, %d tokens:\ngot  %q\nwant %q", texts, calls, tokens, got, want.String())
		}
	}
}

func limitedTexts(l *Limit, texts []string, calls int) string {
	var b strings.Builder
	for i, text := range texts {
		if text != "" && !l.Fits(1) {
			break
		}
		if calls>>i&1 == 1 {
			l.Whole(text)
			b.WriteString(text)
			if !l.Fits(0) {
				break
			}
			continue
		}
		within, over := limited(l, []string{text})
		if b.WriteString(within); over {
			break
		}
	}
	return b.String()
}

// TestLongRuns checks texts that are one word.
func TestLongRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, filling := range []string{"a", "A", " ", "\n", "-", "9", "é", "你", "👋🏽", "aB", "\xff"} {
		text := strings.Repeat(filling, 3*maxPart/len(filling)+1) + " end"
		for _, tokens := range []int{1, 5, 100, 2000} {
			checkPieces(t, []string{text}, tokens)
			checkPieces(t, inRunes(r, text, 30), tokens)
			checkPieces(t, inRunes(r, text, 2000), tokens)
		}
	}
}

// TestLazy checks that text far from the limit is not counted.
func TestLazy(t *testing.T) {
	l := NewLimit(40)
	text := strings.Repeat("Hello ", 4)
	for _, piece := range []string{text, text[:16]} {
		if out, over := l.Add(piece); out != piece || over || l.counted != 0 {
			t.Errorf("%q %v, %d counted", out, over, l.counted)
		}
	}
	if _, _ = l.Add("o"); l.counted == 0 {
		t.Error("nothing was counted")
	}
}

// TestKeptUncounted checks that the kept text is bounded if the limit is far away.
func TestKeptUncounted(t *testing.T) {
	l := NewLimit(1 << 40)
	piece := strings.Repeat("word ", 50_000)
	for range 6 {
		if out, over := l.Add(piece); out != piece || over {
			t.Fatal("not all came out at once")
		}
		l.Whole(piece)
	}
	if len(l.uncounted) > maxUncounted || cap(l.uncounted) > 2*maxUncounted || l.counted < 400_000 {
		t.Errorf("%d bytes are kept in %d; %d tokens", len(l.uncounted), cap(l.uncounted), l.counted)
	}
	if got, want := l.Count(), 12*Count(piece); got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
}

// FuzzLimit lets the fuzzer choose the text, the limit and the cuts.
func FuzzLimit(f *testing.F) {
	f.Add("it's 1234 words/\n  and 👋🏽", uint16(3), uint64(1))
	f.Fuzz(func(t *testing.T, text string, tokens uint16, seed uint64) {
		if len(text) > maxPart {
			return // may be split elsewhere
		}
		limit, r := 1+int(tokens)%(1+len(text)), rand.New(rand.NewPCG(seed, 1))
		got, over := limited(NewLimit(limit), []string{text})
		if want, wantOver := reference(t, text, limit); got != want || over != wantOver {
			t.Fatalf("%q, %d tokens:\ngot  %q %v\nwant %q %v", text, limit, got, over, want, wantOver)
		}
		for _, n := range []int{1, 12, 1 + len(text)} {
			checkPieces(t, inRunes(r, text, n), limit)
		}
	})
}

var prose = strings.Repeat("The quick brown fox jumps over 1234 lazy dogs; it's Grüße 你好 and so on.\n", 1000)

// deltas returns a text in pieces of the size of a token.
func deltas(text string) (all []string) {
	for text != "" {
		n := min(5, len(text))
		all = append(all, text[:n])
		text = text[n:]
	}
	return all
}

// BenchmarkLimit measures a limit that is never near, one that is near for long, and
// one that is reached.
func BenchmarkLimit(b *testing.B) {
	Count("a") // loads the vocabulary
	all := deltas(prose)
	for name, tokens := range map[string]int{"passing": len(prose), "counting": len(prose) / 3, "reached": len(prose) / 5} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(prose)))
			b.ReportAllocs()
			for b.Loop() {
				l := NewLimit(tokens)
				for _, d := range all {
					if _, over := l.Add(d); over {
						break
					}
				}
				l.End()
			}
			b.ReportMetric(float64(len(all)), "deltas/op")
		})
	}
}

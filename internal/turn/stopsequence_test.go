package turn

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// UntilFirst is the text before the sequence that is complete first, told in the simplest way: also for
// the reference of cuts.
func UntilFirst(text string, sequences []string) (before string, found bool) {
	end := len(text) + 1
	before = text
	for _, s := range sequences {
		at := strings.Index(text, s)
		if s == "" || at < 0 || at+len(s) > end || at+len(s) == end && at > len(before) {
			continue
		}
		before, end, found = text[:at], at+len(s), true
	}
	return before, found
}

// filtered is what a filter lets through of a text in pieces.
func filtered(t testing.TB, f *stopFilter, text string, size func(left int) int) (before string, found bool) {
	longest := 0
	for _, s := range f.sequences {
		longest = max(longest, len(s))
	}
	var b strings.Builder
	for fed := 0; fed < len(text); {
		n := size(len(text) - fed)
		out, found := f.feed(text[fed : fed+n])
		fed += n
		b.WriteString(out)
		if found {
			return b.String(), true
		}
		if b.Len()+len(f.held) != fed || len(f.held) >= longest {
			t.Fatalf("%q of %q is out, %q held", b.String(), text[:fed], f.held)
		}
	}
	b.WriteString(f.release())
	return b.String(), false
}

func checkFilter(t testing.TB, text string, sequences []string) {
	f := newStopFilter(sequences)
	if f == nil {
		return
	}
	want, wantFound := UntilFirst(text, sequences)
	for _, size := range batchings {
		// The filter begins anew after a text, so one serves for all.
		if got, found := filtered(t, f, text, size); got != want || found != wantFound {
			t.Fatalf("%q until %q: %q %v, want %q %v", text, sequences, got, found, want, wantFound)
		}
	}
}

func TestStopFilter(t *testing.T) {
	for _, c := range []struct {
		text      string
		sequences []string
		want      string
	}{
		{"one, two", []string{", "}, "one"},
		{"one, two", []string{"three"}, "one, two"},
		{"aaab", []string{"aab"}, "a"},
		{"abcd", []string{"abcd", "bc"}, "a"}, // bc is complete first
		{"xabc", []string{"bc", "abc"}, "x"},  // both with the same byte
		{"xabc", []string{"abc", "bc"}, "x"},
		{"ababac", []string{"abac"}, "ab"}, // a beginning within a beginning
		{"a <use_", []string{"<use_tool>"}, "a <use_"},
		{"Grüße", []string{"ß"}, "Grü"},
		{"è é", []string{"é"}, "è "}, // the same first byte
		{"END", []string{"END"}, ""},
	} {
		checkFilter(t, c.text, c.sequences)
		if got, _ := UntilFirst(c.text, c.sequences); got != c.want {
			t.Errorf("%q until %q: %q, want %q", c.text, c.sequences, got, c.want)
		}
	}
}

// TestStopFilterRandom: few letters, so that there are many near misses.
func TestStopFilterRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	word := func(n int) string {
		b := make([]byte, r.IntN(n+1))
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return string(b)
	}
	for range 20_000 {
		sequences := make([]string, 1+r.IntN(4))
		for i := range sequences {
			sequences[i] = word(6)
		}
		checkFilter(t, word(30), sequences)
	}
}

func FuzzStopFilter(f *testing.F) {
	f.Add("a text, END", "END", ", ", "xt", "")
	f.Fuzz(func(t *testing.T, text, a, b, c, d string) {
		checkFilter(t, text, []string{a, b, c, d})
	})
}

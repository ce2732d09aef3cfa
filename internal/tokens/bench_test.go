package tokens

import (
	"strings"
	"testing"
)

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
	Count("")
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

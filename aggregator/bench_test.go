package aggregator

import (
	"strings"
	"testing"
)

func BenchmarkFragments(b *testing.B) {
	for _, shape := range []string{"responses", "chat"} {
		for _, n := range []int{manyFragments / 10, manyFragments} {
			feed := feeds(n)[shape]
			b.Run(shape+"/"+map[bool]string{true: "117000", false: "11700"}[n == manyFragments], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					feed(New(Options{}))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/fragment")
			})
		}
	}
}

func BenchmarkLargeArgument(b *testing.B) {
	for name, size := range map[string]int{"1MB": 1 << 20, "10MB": largeArgument} {
		text := `{"content":"` + strings.Repeat("line\n", size/5) + `"}`
		event := []byte(rawItem("call_1", "writeToFile", text))
		b.Run("item/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				New(Options{}).Ingest(0, event)
			}
		})
	}
}

func BenchmarkRecordedTurn(b *testing.B) {
	events := recording(b, "tool-burst.jsonl")
	b.ReportAllocs()
	for b.Loop() {
		a := New(Options{})
		for _, event := range events {
			a.Ingest(0, event)
		}
	}
}

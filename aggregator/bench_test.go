package aggregator

import (
	"testing"
)

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

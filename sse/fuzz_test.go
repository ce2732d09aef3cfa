package sse_test

import (
	"slices"
	"strings"
	"testing"
)

// FuzzReader holds the Reader against the definition, whatever the stream and
// the size of its pieces.
func FuzzReader(f *testing.F) {
	for i, stream := range streams {
		f.Add(stream, i)
	}
	f.Fuzz(func(t *testing.T, stream string, size int) {
		r := &pieces{rest: stream, size: func() int { return 1 + max(0, size)%16 }}
		if got, _ := readAll(r, len(stream)+1); !slices.Equal(got, expected(stream)) {
			t.Errorf("read %q, want %q", got, expected(stream))
		}
	})
}

// FuzzRoundTrip: what a Writer writes, a Reader reads.
func FuzzRoundTrip(f *testing.F) {
	f.Add("", []byte("{}"), "keepalive")
	f.Add("response.created", []byte("a\r\n\nb\r"), "a\nb")
	f.Fuzz(func(t *testing.T, typ string, data []byte, comment string) {
		if strings.ContainsAny(typ, "\r\n") {
			typ = "t"
		}
		checkRoundTrip(t, typ, data, comment)
	})
}

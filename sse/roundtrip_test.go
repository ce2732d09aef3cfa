package sse_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/eventstream"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/sse"
)

// checkRoundTrip writes a comment and two events, and reads them back.
func checkRoundTrip(t *testing.T, typ string, data []byte, comment string) {
	t.Helper()
	r := newResponse()
	w := sse.NewWriter(r, sse.WriterOptions{})
	must.OK(t, errors.Join(w.WriteComment(comment), w.WriteEvent(typ, data), w.WriteData([]byte("[DONE]")), w.Close()))
	lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	want := []eventstream.Event{{Type: typ, Data: lines.Replace(string(data))}, {Data: "[DONE]"}}
	var got []eventstream.Event
	for e, err := range eventstream.Read(bytes.NewReader(r.body)) {
		must.OK(t, err)
		got = append(got, e)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q came back as %q", want, got)
	}
}

func TestRoundTrip(t *testing.T) {
	tokens := []string{"\n", "\r", "\r\n", ":", " ", "data: ", "id: 1\n", "x", "é", "\uFEFF", "{\"a\":1}", strings.Repeat("y", 5000)}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		var data, comment strings.Builder
		for range random.IntN(8) {
			data.WriteString(tokens[random.IntN(len(tokens))])
			comment.WriteString(tokens[random.IntN(len(tokens))])
		}
		checkRoundTrip(t, []string{"", "a", "a.b c"}[random.IntN(3)], []byte(data.String()), comment.String())
	}
}

// FuzzRoundTrip checks that clients read what a Writer writes.
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

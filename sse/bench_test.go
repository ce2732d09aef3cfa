package sse_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/sse"
)

// chunk resembles a delta of a chat completion.
var chunk = []byte(`{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1795249642,"model":"gpt-5",` +
	`"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`)

// discard is a response writer that has every method a Writer uses and does
// nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) WriteHeader(int)                  {}
func (discard) FlushError() error                { return nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }
func discarded(o sse.WriterOptions) *sse.Writer  { return sse.NewWriter(discard{http.Header{}}, o) }
func oneFrame(w *sse.Writer, typ string) error {
	return errors.Join(w.WriteEvent(typ, chunk), w.Flush())
}
func options() sse.WriterOptions {
	return sse.WriterOptions{WriteTimeout: time.Minute, Keepalive: time.Minute}
}

func BenchmarkWriteFlush(b *testing.B) {
	w := discarded(options())
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if err := oneFrame(w, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteBatch(b *testing.B) {
	w := discarded(options())
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if err := w.WriteData(chunk); err != nil {
			b.Fatal(err)
		}
	}
}

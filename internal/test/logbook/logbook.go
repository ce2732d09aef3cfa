// Package logbook collects what others write, for tests that read it meanwhile.
package logbook

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// Book is a log, or another output. The zero value is empty. It is safe for concurrent use.
type Book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *Book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *Book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Logger returns a logger that writes to b, whatever the level.
func (b *Book) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Await waits until b has a text.
func (b *Book) Await(t testing.TB, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(b)
		}
	}()
	must.Happen(t, "the log says "+text, func() bool { return strings.Contains(b.String(), text) })
}

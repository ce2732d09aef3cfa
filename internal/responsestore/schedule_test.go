package responsestore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// TestSweepsOverReloads checks that old entries are deleted even if no store lives
// until the next sweep.
func TestSweepsOverReloads(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		before := sweepDue.Load()
		defer sweepDue.Store(before)
		dueIn(sweepEvery) // by the clock of the test
		open := func() *Shared { return NewShared(storage, Limits{time.Minute, 100}, slog.New(slog.DiscardHandler)) }
		old := fmt.Sprintf("%s/%s%s%019d%s", folder, responseid.Prefix, responseid.NewSuffix(time.Now())[:7], 1, extension)
		if err := storage.Store(t.Context(), old, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		s := open()
		for range 70 {
			other := open()
			time.Sleep(time.Minute)
			s.Close()
			s = other
		}
		defer s.Close()
		if _, err := storage.Load(t.Context(), old); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", filepath.Base(old), err)
		}
	})
}

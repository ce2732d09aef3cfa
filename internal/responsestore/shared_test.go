package responsestore

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// newShared returns a store and its clock.
func newShared(t *testing.T, storage certmagic.Storage, limits Limits) (s *Shared, now *atomic.Int64) {
	t.Helper()
	now = new(atomic.Int64)
	now.Store(testTime.UnixNano())
	s = NewShared(storage, limits, slog.New(slog.DiscardHandler))
	s.now = func() time.Time { return time.Unix(0, now.Load()) }
	t.Cleanup(s.Close)
	return s, now
}

func putAll(t *testing.T, s Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Put(t.Context(), id(i), entry("u", "", "x")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSweep checks that old entries are deleted, and the oldest of too many.
func TestSweep(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s, now := newShared(t, &certmagic.FileStorage{Path: dir}, Limits{time.Hour, 100})
	if deleted, err := s.sweep(ctx); deleted != 0 || err != nil {
		t.Errorf("an empty storage: %d deleted, %v", deleted, err)
	}
	putAll(t, s, 0, 3)
	folder := filepath.Join(dir, filepath.FromSlash(folder))
	for _, name := range []string{id(1) + ".json", "resp_other.json", "note.txt"} { // an invalid entry, and keys that are no entries
		if err := os.WriteFile(filepath.Join(folder, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(time.Hour - 2*time.Second))
	const later = 3_600_000 // milliseconds
	putAll(t, s, later, later+2)
	now.Add(int64(4 * time.Second))
	if deleted, err := s.sweep(ctx); deleted != 3 || err != nil {
		t.Errorf("%d deleted, %v", deleted, err)
	}
	if e, err := s.Get(ctx, "u", id(later)); err == nil {
		e.Release()
	} else {
		t.Error("a young one was deleted:", err)
	}
	s.limits.MaxCount = 1
	if deleted, err := s.sweep(ctx); deleted != 1 || err != nil {
		t.Errorf("one too many: %d deleted, %v", deleted, err)
	}
	if e, err := s.Get(ctx, "u", id(later+1)); err == nil {
		e.Release()
	} else {
		t.Error("the youngest was deleted:", err)
	}
	left, _ := os.ReadDir(folder)
	if len(left) != 3 {
		t.Errorf("left is %v", left)
	}
}

// TestSweepAfterPuts checks that many new entries start a sweep.
func TestSweepAfterPuts(t *testing.T) {
	dir := t.TempDir()
	s, _ := newShared(t, &certmagic.FileStorage{Path: dir}, Limits{time.Hour, 10})
	putAll(t, s, 0, 30)
	for deadline := time.Now().Add(20 * time.Second); ; {
		entries, err := s.entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) <= 12 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d entries", len(entries))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// brokenStorage fails or hangs on every call.
type brokenStorage struct {
	certmagic.Storage
	err  error
	hang chan struct{}
}

func (b *brokenStorage) fail() error {
	if b.hang != nil {
		<-b.hang
	}
	return b.err
}

func (b *brokenStorage) Store(context.Context, string, []byte) error  { return b.fail() }
func (b *brokenStorage) Load(context.Context, string) ([]byte, error) { return nil, b.fail() }
func (b *brokenStorage) Stat(context.Context, string) (certmagic.KeyInfo, error) {
	return certmagic.KeyInfo{}, b.fail()
}
func (b *brokenStorage) Delete(context.Context, string) error                 { return b.fail() }
func (b *brokenStorage) List(context.Context, string, bool) ([]string, error) { return nil, b.fail() }
func (b *brokenStorage) Exists(context.Context, string) bool                  { return false }

// checkUnavailable checks the errors of a store that does not work.
func checkUnavailable(t *testing.T, s *Shared, ctx context.Context) {
	t.Helper()
	err := s.Put(ctx, id(1), entry("u", "", "x"))
	_, getErr := s.Get(ctx, "u", id(1))
	_, sweepErr := s.sweep(ctx)
	for _, err := range []error{err, getErr, s.Delete(ctx, "u", id(1)), sweepErr} {
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
	var missing *MissingError
	if _, err := NewReader(s, "u", 1000, always).Chain(ctx, id(1)); !errors.Is(err, ErrUnavailable) || errors.As(err, &missing) {
		t.Error(err)
	}
}

func TestSharedFails(t *testing.T) {
	s, _ := newShared(t, &brokenStorage{err: fs.ErrPermission}, Limits{time.Hour, 10})
	checkUnavailable(t, s, t.Context())
}

// TestSharedHangs checks that callers do not wait for a storage that ignores
// deadlines.
func TestSharedHangs(t *testing.T) {
	storage := &brokenStorage{hang: make(chan struct{}), err: fs.ErrNotExist}
	s, _ := newShared(t, storage, Limits{time.Hour, 10_000})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	for range 3 * maxCalls {
		checkUnavailable(t, s, ctx)
	}
	close(storage.hang)
	if _, err := s.Get(t.Context(), "u", id(1)); !errors.Is(err, ErrNotFound) {
		t.Error("after the storage works again:", err)
	}
}

// TestSharedCorrupt checks that invalid entries do not exist for users.
func TestSharedCorrupt(t *testing.T) {
	dir := t.TempDir()
	s, _ := newShared(t, &certmagic.FileStorage{Path: dir}, Limits{time.Hour, 10})
	putAll(t, s, 0, 1)
	at := filepath.Join(dir, filepath.FromSlash(folder), id(0)+".json")
	whole, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{
		"", "{", "null", "[]", `{"user":"u"}`, `{"user":["u"],"response":{}}`, `{"user":"u","previous":1,"response":{}}`, `{"user":"u","response":{},"output":[{"to":99}]}`,
		`{"user":"u","response":{},"output":[{"from":-1,"to":1}]}`, `{"user":"u","response":{"a":1},"output":[{"from":1,"to":5}]}`,
		`{"user":"u","response":{},"output":[{"from":2,"to":1}]}`, strings.Replace(string(whole), "<", "<<", 1), string(whole[:len(whole)/2]),
	} {
		if err := os.WriteFile(at, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "u", id(0)); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

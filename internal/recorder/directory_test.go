package recorder

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// files returns the names in a directory, in their order.
func files(t *testing.T, path string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	must.OK(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestDirectoryModes: only the system's user can read recordings, and no id leads out of the directory.
func TestDirectoryModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "a", "b")
	d := &Directory{Path: path, Size: 1 << 20, Age: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	for _, id := range []string{"req-1", "../../x", "/etc/passwd", "a:b.jsonl", "", "ü", strings.Repeat("x", 128)} {
		d.Store("ann", id, []byte("{}\n"))
	}
	all := files(t, path)
	if len(all) != 7 || !strings.HasSuffix(all[0], "-req-1.jsonl") || !strings.HasSuffix(all[1], "-______x.jsonl") || d.Err() != nil {
		t.Errorf("%q, %v", all, d.Err())
	}
	for name, want := range map[string]os.FileMode{all[0]: 0o600, ".": 0o700, "..": 0o700} {
		info, err := os.Stat(filepath.Join(path, name))
		must.OK(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has the mode %o, want %o", name, got, want)
		}
	}
}

// TestDirectoryBounds: the oldest files go when there is no room or they are too old, and no files of others.
func TestDirectoryBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		other := filepath.Join(path, "20000101-notes.jsonl")
		must.OK(t, os.WriteFile(other, []byte("mine"), 0o600))
		d := &Directory{Path: path, Size: 64 << 10, Age: 24 * time.Hour, Logger: slog.New(slog.DiscardHandler)}
		for i := range 100 {
			d.Store("ann", fmt.Sprint("small", i), []byte("{}\n")) // takes up a block of 4 KiB
			if n := len(files(t, path)) - 1; n > 16 || n < min(i, 15) {
				t.Fatalf("after %d there are %d files", i+1, n)
			}
			time.Sleep(time.Minute)
		}
		if all := files(t, path); !strings.HasSuffix(all[len(all)-1], "small99.jsonl") {
			t.Errorf("the newest is lost: %q", all)
		}
		must.OK(t, os.WriteFile(filepath.Join(path, "20000101T000000.000000000Z-00000000-y.jsonl.part"), nil, 0o600)) // of a Caddy that was killed
		d.Store("ben", "large", make([]byte, 100<<10))                                                                // more than Size
		if all := files(t, path); len(all) != 2 || !strings.HasSuffix(all[1], "large.jsonl") || d.Err() != nil {
			t.Errorf("beside a large one there are %q", all)
		}
		time.Sleep(23 * time.Hour)
		d.Store("", "", nil) // as a reload does
		if all := files(t, path); len(all) != 2 {
			t.Errorf("before its time it has gone: %q", all)
		}
		time.Sleep(2 * time.Hour)
		d.Store("", "", nil)
		if all := files(t, path); len(all) != 1 || all[0] != filepath.Base(other) {
			t.Errorf("what is too old is still there: %q", all)
		}
	})
}

// TestDirectoryFails: a directory that cannot be used is told once, and is used as soon as it can be.
func TestDirectoryFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	must.OK(t, os.WriteFile(path, nil, 0o600)) // in the place of the directory
	var log strings.Builder
	d := &Directory{Path: path, Size: 1 << 20, Age: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		d.Store("ann", "id", []byte("{}\n"))
	}
	if d.Err() == nil || strings.Count(log.String(), "cannot be stored") != 1 {
		t.Errorf("%v; %s", d.Err(), log.String())
	}
	must.OK(t, os.Remove(path))
	d.Store("ann", "id", []byte("{}\n"))
	must.OK(t, os.RemoveAll(path)) // as who wants to delete all recordings does
	d.Store("ann", "id", []byte("{}\n"))
	if d.Err() != nil || strings.Count(log.String(), "\n") != 1 || len(files(t, path)) != 1 {
		t.Errorf("%v; %s", d.Err(), log.String())
	}
}

// TestDirectoryIsShared: large recordings of another user cost a user no files.
func TestDirectoryIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		d := &Directory{Path: path, Size: 1 << 20, Age: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		for i := range 10 {
			d.Store("ann", fmt.Sprint("ann", i), []byte("{}\n"))
			time.Sleep(time.Second)
		}
		for i := range 100 {
			d.Store("ben", fmt.Sprint("ben", i), make([]byte, 100<<10))
			time.Sleep(time.Second)
		}
		all := files(t, path)
		if n := strings.Count(strings.Join(all, " "), "-ann"); n != 10 || len(all) < 12 || !strings.HasSuffix(all[len(all)-1], "-ben99.jsonl") {
			t.Errorf("left: %q", all)
		}
	})
}

// TestDirectoryBurst: of many requests that end at once, all are stored.
func TestDirectoryBurst(t *testing.T) {
	const burst = 300
	d := &Directory{Path: t.TempDir(), Size: 1 << 30, Age: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	var storing sync.WaitGroup
	d.mu.Lock()
	for range burst {
		storing.Go(func() { d.Store("ann", "id", []byte("{}\n")) })
	}
	must.Happen(t, "all wait for the disk", func() bool { return d.waiting.Load() == burst*fileSize })
	d.mu.Unlock()
	storing.Wait()
	if n := len(files(t, d.Path)); n != burst || d.Err() != nil {
		t.Errorf("%d files, %v", n, d.Err())
	}
}

// TestDirectoryHangs: while the disk hangs, what waits for it is bounded, and its state can be read.
func TestDirectoryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Directory{Path: t.TempDir(), Size: 1 << 20, Age: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		hung := make(chan struct{})
		d.waiting.Store(maxWaiting) // as many as wait
		go func() {
			d.Store("ann", "id", []byte("{}\n"))
			close(hung)
		}()
		<-hung
		if !errors.Is(d.Err(), errDiskHangs) || len(files(t, d.Path)) != 0 {
			t.Errorf("%v", d.Err())
		}
		d.waiting.Store(0)
		if d.Store("ann", "id", []byte("{}\n")); d.Err() != nil || len(files(t, d.Path)) != 1 {
			t.Errorf("%v", d.Err())
		}
	})
}

// TestDirectoryOfOthers: what is no recording stays, and does not hinder.
func TestDirectoryOfOthers(t *testing.T) {
	path := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(path, "20200101T000000.000000000Z-00000000-d.jsonl", "full"), 0o700))
	d := &Directory{Path: path, Size: 1 << 20, Age: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	if d.Store("ann", "id", []byte("{}\n")); d.Err() != nil || len(files(t, path)) != 2 {
		t.Errorf("%v", d.Err())
	}
}

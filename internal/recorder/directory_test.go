package recorder

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
		d.Store(id, []byte("{}\n"))
	}
	all := files(t, path)
	if len(all) != 7 || !strings.HasSuffix(all[0], "Z-req-1.jsonl") || !strings.HasSuffix(all[1], "Z-______x.jsonl") || d.Err() != nil {
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
			d.Store(fmt.Sprint("small", i), []byte("{}\n")) // takes up a block of 4 KiB
			if n := len(files(t, path)) - 1; n > 16 || n < min(i, 15) {
				t.Fatalf("after %d there are %d files", i+1, n)
			}
			time.Sleep(time.Minute)
		}
		if all := files(t, path); !strings.HasSuffix(all[len(all)-1], "small99.jsonl") {
			t.Errorf("the newest is lost: %q", all)
		}
		must.OK(t, os.Mkdir(filepath.Join(path, "20000101T000000.000000000Z-x.jsonl"), 0o700))               // is no recording
		must.OK(t, os.WriteFile(filepath.Join(path, "20000101T000000.000000000Z-y.jsonl.part"), nil, 0o600)) // of a Caddy that was killed
		d.Store("large", make([]byte, 100<<10))                                                              // more than Size
		if all := files(t, path); len(all) != 3 || !strings.HasSuffix(all[2], "large.jsonl") || d.Err() != nil {
			t.Errorf("beside a large one there are %q", all)
		}
		time.Sleep(23 * time.Hour)
		d.Store("", nil) // as a reload does
		if all := files(t, path); len(all) != 3 {
			t.Errorf("before its time it has gone: %q", all)
		}
		time.Sleep(2 * time.Hour)
		d.Store("", nil)
		if all := files(t, path); len(all) != 2 || all[0] != filepath.Base(other) {
			t.Errorf("what is too old is still there: %q", all)
		}
	})
}

// TestDirectoryHangs: who asks for the state does not wait for the disk.
func TestDirectoryHangs(t *testing.T) {
	d := new(Directory)
	d.mu.Lock() // as Store does while it writes
	defer d.mu.Unlock()
	if err := d.Err(); err != nil {
		t.Error(err)
	}
}

// TestDirectoryFails: a directory that cannot be used is told once, and is used as soon as it can be.
func TestDirectoryFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	must.OK(t, os.WriteFile(path, nil, 0o600)) // in the place of the directory
	var log strings.Builder
	d := &Directory{Path: path, Size: 1 << 20, Age: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		d.Store("id", []byte("{}\n"))
	}
	if d.Err() == nil || strings.Count(log.String(), "cannot be stored") != 1 {
		t.Errorf("%v; %s", d.Err(), log.String())
	}
	must.OK(t, os.Remove(path))
	d.Store("id", []byte("{}\n"))
	must.OK(t, os.RemoveAll(path)) // as who wants to delete all recordings does
	d.Store("id", []byte("{}\n"))
	if d.Err() != nil || strings.Count(log.String(), "\n") != 1 || len(files(t, path)) != 1 {
		t.Errorf("%v; %s", d.Err(), log.String())
	}
}

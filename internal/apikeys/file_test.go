package apikeys

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/logbook"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func entry(id, key string) string { return "key " + id + " {\n" + hashOf(key) + "\n}\n" }

// TestFileChanges changes a file in the ways that people and programs do. A change with
// an error is logged once, and the last version without one stays.
func TestFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, entry("a", "one"))
	log := new(logbook.Book)
	f, err := Open(path, log.Logger())
	must.OK(t, err)
	has := func(key string) bool { return f.Set().Find(key) != nil }
	check := func(what, key, logged string, errors int) {
		t.Helper()
		for range 3 { // further checks log nothing
			f.poll(t.Context())
		}
		if !has(key) || !strings.Contains(log.String(), logged) || strings.Count(log.String(), "level=ERROR") != errors {
			t.Errorf("%s: the key %s is there: %t; %s", what, key, has(key), log)
		}
	}
	check("at first", "one", "", 0)
	write(t, path, entry("a", "two")) // in place, with the same size
	check("written again", "two", "has changed", 0)
	if has("one") {
		t.Error("the key of before is still there")
	}
	other := path + ".new"
	write(t, other, entry("a", "six"))
	must.OK(t, os.Rename(other, path))
	check("replaced", "six", "", 0)
	write(t, path, entry("a", "bad")+"key b {")
	check("with an error", "six", path+":4", 1)
	must.OK(t, os.Remove(path))
	check("lost", "six", "cannot be read", 2)

	write(t, path, entry("a", "ten"))
	check("back", "ten", "", 2)

	f.Watch()
	write(t, path, entry("a", "bad")+"\n\nkey b {")
	log.Await(t, path+":6")
	f.Close()
	f.Close()
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for name, prepare := range map[string]func(path string){
		"missing":   func(string) {},
		"broken":    func(path string) { write(t, path, "key a {") },
		"directory": func(path string) { _ = os.Mkdir(path, 0o700) },
		"large":     func(path string) { write(t, path, strings.Repeat("#", maxSize+1)) },
	} {
		path := filepath.Join(dir, name)
		prepare(path)
		if _, err := Open(path, slog.Default()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLastKeyIsRevoked: a file whose last key was revoked is no file that is being written.
func TestLastKeyIsRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, entry("a", "one"))
	f, err := Open(path, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	must.OK(t, Revoke(path, "a"))
	if f.poll(t.Context()); len(f.Set().Keys) != 0 {
		t.Errorf("%d keys", len(f.Set().Keys))
	}
}

// An empty file counts only once it stays so: some editors empty a file before they write it.
func TestFileBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, entry("a", "one"))
	f, err := Open(path, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	write(t, path, "")
	for _, c := range []struct {
		age  time.Duration
		keys int
	}{{-time.Hour, 1}, {time.Hour, 0}} {
		at := time.Now().Add(-c.age)
		must.OK(t, os.Chtimes(path, at, at))
		for range 2 {
			if f.poll(t.Context()); len(f.Set().Keys) != c.keys {
				t.Errorf("an empty file of an age of %s: %d keys", c.age, len(f.Set().Keys))
			}
		}
	}
}

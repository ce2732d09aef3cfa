package apikeys

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	must.OK(t, err)
	return string(content)
}

// list returns the keys of a file.
func list(path string) ([]*Key, error) {
	f, err := Open(path, nil)
	if err != nil {
		return nil, err
	}
	return f.Set().Keys, nil
}

// TestEditAtOnce makes and revokes keys with commands that run at the same time.
func TestEditAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	var commands sync.WaitGroup
	for n := range 12 {
		commands.Go(func() {
			id := fmt.Sprint("key-", n)
			_, err := Add(path, id, nil)
			if err == nil && n%3 == 0 {
				err = Revoke(path, id)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	commands.Wait()
	if keys, err := list(path); err != nil || len(keys) != 8 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}

func TestEdit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	key, err := Add(path, "ann", []Option{{"user", `Ann "A" \ {x}`}, {"models", "gpt-5.5", "fast"}, {"tokens", "1_000", "5h"}})
	must.OK(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if strings.Contains(read(t, path), key) || !strings.HasPrefix(key, "sk-codex-") || len(key) < 30 {
		t.Errorf("the key %s: %s", key, read(t, path))
	}
	write(t, path, "# The keys\n\n# of Ann\n"+read(t, path)) // as an operator does
	must.OK(t, os.Chmod(path, 0o640))
	second, err := Add(path, "bob", nil)
	if err != nil || second == key {
		t.Fatal(second, err)
	}
	if _, err := Add(path, "carol", nil); err != nil {
		t.Fatal(err)
	}
	keys, err := list(path)
	if err != nil || len(keys) != 3 || keys[0].User != `Ann "A" \ {x}` || keys[0].Limits[0].Max != 1000 || keys[1].ID != "bob" {
		t.Fatalf("%+v, %v", keys, err)
	}
	f, err := Open(path, nil)
	if err != nil || f.Set().Find(key) == nil || f.Set().Find(second).ID != "bob" {
		t.Error("the keys are not valid:", err)
	}
	if _, err := Add(path, "bob", nil); err == nil || !strings.Contains(err.Error(), "the id bob") {
		t.Error("an id twice:", err)
	}
	for _, id := range []string{"bob", "ann"} {
		must.OK(t, Revoke(path, id))
	}
	if got := read(t, path); !strings.HasPrefix(got, "# The keys\n\nkey carol {\n") || strings.Contains(got, "Ann") {
		t.Errorf("after the revocations: %s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Error("the mode has changed:", info.Mode(), err)
	}
	if err := Revoke(path, "carol"); err != nil || strings.TrimSpace(read(t, path)) != "# The keys" {
		t.Errorf("%q, %v", read(t, path), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Error("left behind:", left)
	}
}

// TestEditRefuses checks that a refused change leaves the file as it is.
func TestEditRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := Revoke(path, "x"); err == nil {
		t.Error("a missing file is edited")
	}
	content := entry("a", "one")
	write(t, path, content)
	for name, do := range map[string]func() error{
		"revoke unknown": func() error { return Revoke(path, "b") },
		"bad id":         func() error { _, err := Add(path, "b c", nil); return err },
		"bad option":     func() error { _, err := Add(path, "b", []Option{{"expires", "soon"}}); return err },
		"two lines":      func() error { _, err := Add(path, "b", []Option{{"user", "x\n}\nkey c {\n"}}); return err },
		"all quotes":     func() error { _, err := Add(path, "b", []Option{{"user", "`\""}}); return err },
		"injected":       func() error { _, err := Add(path, "b {\n}\nkey c", nil); return err },
	} {
		if do() == nil || read(t, path) != content {
			t.Errorf("%s: %s", name, read(t, path))
		}
	}
	write(t, path, "key a {")
	if _, err := Add(path, "b", nil); err == nil || read(t, path) != "key a {" {
		t.Error("a broken file is edited")
	}
	write(t, path+".new", "")
	if _, err := Add(path, "b", nil); err == nil || !strings.Contains(err.Error(), path+".new") {
		t.Error("two edits at once:", err)
	}
}

// TestEditLink checks that a link to a file stays one.
func TestEditLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "keys"), filepath.Join(dir, "link")
	write(t, path, "")
	must.OK(t, os.Symlink(path, link))
	if _, err := Add(link, "a", nil); err != nil {
		t.Fatal(err)
	}
	if keys, err := list(path); err != nil || len(keys) != 1 {
		t.Error(keys, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone:", err)
	}
}

// FuzzFormat: an argument that can be written in a file of keys is read as it was.
func FuzzFormat(f *testing.F) {
	for _, arg := range []string{"ann", "a b", "a\"b", "a`b", `a\`, "#", "{$HOME}", "{", "import", "\u00a0", "", "<<X", "\xd4"} {
		f.Add(arg)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		entry, err := formatEntry("a", []Option{{"hash", hashOf("x")[len("hash "):]}, {"user", arg}})
		if err != nil {
			return
		}
		set, err := parse([]byte(entry), "keys")
		if err == nil && (len(set.Keys) != 1 || set.Keys[0].User != arg) {
			t.Fatalf("%q is read as %+v of %s", arg, set.Keys, entry)
		}
	})
}

// FuzzRevoke: revoking a key leaves the others as they are.
func FuzzRevoke(f *testing.F) {
	entry := func(id string) string { return "key " + id + " {\n\t" + hashOf(id) + "\n\tuser " + id + "\n}\n" }
	f.Add([]byte("# a\n"+entry("a")+"\n# b\n\n"+entry("b")+"# c\n"+entry("c")), uint8(1))
	f.Add([]byte("key a {\n"+hashOf("a")+"\n}\nkey b {\n"+hashOf("b")+"\n} # end"), uint8(0))
	f.Fuzz(func(t *testing.T, content []byte, number uint8) {
		set, err := parse(content, "keys")
		if err != nil || len(set.Keys) == 0 {
			return
		}
		path := filepath.Join(t.TempDir(), "keys")
		must.OK(t, os.WriteFile(path, content, 0o600))
		at := int(number) % len(set.Keys)
		if err := Revoke(path, set.Keys[at].ID); err != nil {
			if now, errNow := os.ReadFile(path); errNow != nil || string(now) != string(content) {
				t.Fatalf("%v, and the file is %q", err, now)
			}
			return
		}
		left, err := list(path)
		must.OK(t, err)
		want := slices.Delete(set.Keys, at, at+1)
		for _, keys := range [][]*Key{want, left} {
			for _, k := range keys {
				k.firstLine, k.lastLine = 0, 0
			}
		}
		if len(left)+len(want) > 0 && !reflect.DeepEqual(left, want) {
			t.Fatalf("without key %d of %q:\n%+v, want\n%+v", at, content, left, want)
		}
	})
}

package apikeys

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

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
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		at := int(number) % len(set.Keys)
		if err := Revoke(path, set.Keys[at].ID); err != nil {
			if now, errNow := os.ReadFile(path); errNow != nil || string(now) != string(content) {
				t.Fatalf("%v, and the file is %q", err, now)
			}
			return
		}
		left, err := List(path)
		if err != nil {
			t.Fatal(err)
		}
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

package apikeys

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// hashOf returns the option hash of a key.
func hashOf(key string) string {
	return fmt.Sprintf("hash %s%x", hashPrefix, sha256.Sum256([]byte(key)))
}

func TestParse(t *testing.T) {
	set, err := parse([]byte(`# the first
key alice-laptop {
	`+hashOf("one")+` # of one
	user    "Alice A."
	expires 2027-01-31T12:00:00+02:00
	models  gpt-5.5 fast
}

key b@x.org {
	`+hashOf("two")+`
	expires 2027-01-31
}
`), "keys")
	if err != nil {
		t.Fatal(err)
	}
	one, two := set.Find("one"), set.Find("two")
	if one == nil || two == nil || set.Find("three") != nil || set.Find("") != nil || len(set.Keys) != 2 {
		t.Fatalf("%+v", set)
	}
	if one.ID != "alice-laptop" || one.User != "Alice A." || !one.Expires.Equal(time.Date(2027, 1, 31, 10, 0, 0, 0, time.UTC)) ||
		!reflect.DeepEqual(one.Models, []string{"gpt-5.5", "fast"}) || one.Allows("gpt-5") || !one.Allows("fast") {
		t.Errorf("%+v", one)
	}
	if two.ID != "b@x.org" || two.User != "b@x.org" || !two.Allows("anything") {
		t.Errorf("%+v", two)
	}
	if end := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC); two.Expired(end.Add(-1)) || !two.Expired(end) {
		t.Error("the end is not the begin of the day")
	}
	if empty, err := parse([]byte("# nothing\n"), "keys"); err != nil || len(empty.Keys) != 0 || empty.Find("") != nil {
		t.Errorf("%+v, %v", empty, err)
	}
}

// TestParseErrors checks that errors have the file and the line, and show no key.
func TestParseErrors(t *testing.T) {
	const secret = "sk-nobody-may-see-this"
	h := hashOf("x")
	for content, want := range map[string]struct {
		line int
		text string
	}{
		"keys a":                                                 {1, "expected: key <id> {"},
		"key {\n" + h + "\n}":                                    {1, "one id"},
		"key a b {\n" + h + "\n}":                                {1, "one id"},
		"key " + secret + "/ {\n" + h + "\n}":                    {1, "one id"},
		"key a":                                                  {1, "the key a has no hash"},
		"key a {\n}":                                             {2, "the key a has no hash"},
		"key a {\n" + h + "\n":                                   {2, "no closing brace"},
		"key a {\nuser x\n}":                                     {3, "the key a has no hash"},
		"key a {\n" + h + "\n" + h + "\n}":                       {3, "hash is given twice"},
		"key a {\nhash " + secret + "\n}":                        {2, "hash must be sha256:"},
		"key a {\nhash sha256:" + secret + "\n}":                 {2, "hash must be sha256:"},
		"key a {\n" + h + "0\n}":                                 {2, "hash must be sha256:"},
		"key a {\n" + h[:len(h)-1] + "\n}":                       {2, "hash must be sha256:"},
		"key a {\n" + h + " " + secret + "\n}":                   {2, "hash must be sha256:"},
		"key a {\n" + h + "\nuser\n}":                            {3, "user takes one name"},
		"key a {\n" + h + "\nuser \"\"\n}":                       {3, "user takes one name"},
		"key a {\n" + h + "\nexpires soon\n}":                    {3, "expires takes a date"},
		"key a {\n" + h + "\nmodels\n}":                          {3, "models takes the names"},
		"key a {\n" + h + "\nmodels x {\ny\n}\n}":                {3, "unknown option"},
		"key a {\n" + h + "\nhome /x\n}":                         {3, `unknown option "home"`},
		"key a {\n" + h + "\n}\nkey a {\n" + hashOf("y") + "\n}": {6, "two keys with the id a"},
		"key a {\n" + h + "\n}\nkey b {\n" + h + "\n}":           {6, "the keys a and b are the same"},
	} {
		_, err := parse([]byte(content), "the-file")
		if err == nil {
			t.Errorf("%q is no error", content)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want.text) || !strings.Contains(got, fmt.Sprintf("the-file:%d", want.line)) || strings.Contains(got, secret) {
			t.Errorf("%q: %s, want line %d, %s", content, got, want.line, want.text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("key a {\n" + hashOf("x") + "\nuser b\nexpires 2027-01-31\nmodels a b\n}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		set, err := parse(content, "keys")
		if err != nil {
			return
		}
		for _, k := range set.Keys {
			if !validID.MatchString(k.ID) || k.User == "" || set.byHash[k.Hash] != k {
				t.Errorf("%+v", k)
			}
		}
	})
}

// BenchmarkFind looks up keys in sets of different sizes.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 1000} {
		var content strings.Builder
		for i := range n {
			fmt.Fprintf(&content, "key k%d {\n%s\n}\n", i, hashOf(fmt.Sprint("key", i)))
		}
		set, err := parse([]byte(content.String()), "keys")
		if err != nil {
			b.Fatal(err)
		}
		for name, key := range map[string]string{"found": fmt.Sprint("key", n-1), "unknown": "nobody"} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					set.Find(key)
				}
			})
		}
	}
}

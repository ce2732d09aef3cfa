package responsestore

import (
	"strings"
	"testing"
)

// FuzzID: an id that tells when it was made tells the time that is in it.
func FuzzID(f *testing.F) {
	f.Add("resp_1a2b3c4" + strings.Repeat("x", idLength-stampLength))
	f.Fuzz(func(t *testing.T, id string) {
		at, ok := made(id)
		if ok && (!ValidID(id) || stamp(at) != id[len(idPrefix):][:stampLength]) {
			t.Fatalf("%q was made at %s, whose stamp is %q", id, at, stamp(at))
		}
	})
}

package responses

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzEntry: whatever a storage gives for an entry, its items are JSON, or it
// counts as none.
func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"user":"u","response":{"id":"r"},"input":[{"a":1}],"output":[{"from":0,"to":10},{"own":{"b":2}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := new(Entry)
		if json.Unmarshal(data, e) != nil || !e.sound() {
			return
		}
		items := 0
		for item := range e.Items() {
			items++
			if !json.Valid(item) {
				t.Fatalf("item %d of %s is %q", items, data, item)
			}
		}
		if items != len(e.Input)+len(e.Output) || e.size() < int64(len(e.Response)) {
			t.Fatalf("%d items, %d bytes of %s", items, e.size(), data)
		}
	})
}

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

package main

import (
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// TestRecords: records are read however cut, and a lost, doubled or damaged one is noticed.
func TestRecords(t *testing.T) {
	for _, size := range []int{minSize, stamped, stamped + 3} {
		var text []byte
		const n = 20
		for i := range n {
			text = appendRecord(text, i, size)
		}
		if len(text) != n*size {
			t.Fatalf("%d records of %d bytes have %d bytes", n, size, len(text))
		}
		for piece := 1; piece <= len(text); piece++ {
			heard := 0
			r := records{size: size, heard: func(time.Duration) { heard++ }}
			for from := 0; from < len(text); from += piece {
				must.OK(t, r.add(text[from:min(from+piece, len(text))], time.Now().UnixNano()))
			}
			if r.next != n || size >= stamped && heard != n {
				t.Fatalf("in pieces of %d: %d records, %d of them with a time", piece, r.next, heard)
			}
		}
		for name, wrong := range map[string][]byte{
			"lost":    text[size:],
			"doubled": append(append([]byte{}, text[:size]...), text...),
			"shifted": text[1:],
		} {
			if err := (&records{size: size}).add(wrong, 0); err == nil {
				t.Errorf("%s: the records of %d bytes were taken", name, size)
			}
		}
	}
	now := time.Now().UnixNano()
	if stamp := stampOf(appendRecord(nil, 1, stamped)); stamp < now || stamp > time.Now().UnixNano() {
		t.Errorf("the time of a record is %d, its writing began at %d", stamp, now)
	}
}

// TestOrder checks that the double gets what a prompt asks for.
func TestOrder(t *testing.T) {
	for _, o := range []order{{deltas: 1, size: minSize, hold: true}, {deltas: forever, size: stamped, pace: time.Millisecond}} {
		if got := parseOrder(newRequest(o, []string{"a", "b"}, "c").body); got != o {
			t.Errorf("%+v was read as %+v", o, got)
		}
	}
}

package scriptedmodel

import (
	"bytes"
	"testing"
)

// TestRequestsBound checks that the oldest requests are dropped, by number and by size.
func TestRequestsBound(t *testing.T) {
	s := start(t)
	s.log.limit = 2
	for range 5 {
		s.prompt("say:x", nil)
	}
	requests := s.Requests()
	if len(requests) != 2 || requests[0].Number != 4 || requests[1].Number != 5 {
		t.Errorf("kept %+v", requests)
	}
	if stats := s.Stats(); stats.Requests != 5 || stats.Finished != 5 {
		t.Errorf("stats %+v", stats)
	}

	r := New(Options{}).log
	big := bytes.Repeat([]byte{' '}, maxKeptBytes/2)
	for range 3 {
		r.add(&Request{Body: big})
	}
	if len(r.kept) != 2 || r.bytes != maxKeptBytes || r.kept[0].Number != 2 {
		t.Errorf("kept %d bodies of %d bytes, the first is number %d", len(r.kept), r.bytes, r.kept[0].Number)
	}
}

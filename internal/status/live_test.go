package status

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/appserver"
)

func everyone(string) bool { return true }

// TestList checks whose requests are listed, how many, and in which order.
func TestList(t *testing.T) {
	var s Set
	all := make([]Entry, 9)
	for i, user := range strings.Split("abcabcabc", "") {
		s.Begin(&all[i], Request{ID: string(rune('0' + i)), User: user, Since: time.Unix(int64(i), 0)})
	}
	ids := func(wanted func(string) bool, most int) (ids string) {
		for _, r := range s.List(wanted, most) {
			ids += r.ID
		}
		return ids
	}
	for _, c := range []struct {
		wanted func(string) bool
		most   int
		want   string
	}{
		{everyone, 100, "012345678"}, {everyone, 4, "0123"}, {everyone, 0, ""},
		{func(user string) bool { return user == "b" }, 2, "14"}, {func(string) bool { return false }, 9, ""},
	} {
		if got := ids(c.wanted, c.most); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	for _, i := range []int{0, 4, 8, 4} { // one of them twice
		all[i].Release()
	}
	if got := ids(everyone, 100); got != "123567" {
		t.Errorf("%s are left", got)
	}
}

// TestEntry checks how a request is shown from its begin to its end.
func TestEntry(t *testing.T) {
	var s Set
	var e Entry
	s.Begin(&e, Request{Model: strings.Repeat("ä", maxModel)})
	now := func() Request { return s.List(everyone, 1)[0] }
	if r := now(); r.State != Waiting || r.Model != strings.Repeat("ä", maxModel/2) || r.Process != nil || r.Characters != 0 {
		t.Errorf("%+v", r)
	}
	first, second := new(appserver.Process), new(appserver.Process)
	e.Enter(Starting)
	e.SetProcess(first)
	e.SetProcess(second) // of another choice
	e.Enter(Running)
	if r := now(); r.State != Running || r.Process != first {
		t.Errorf("%+v", r)
	}
	e.Add(0) // a call begins
	if r := now(); r.State != Answering || r.Characters != 0 {
		t.Errorf("%+v", r)
	}
	e.Add(3)
	e.Add(4)
	if r := now(); r.Characters != 7 {
		t.Errorf("%+v", r)
	}
	e.Release()
	if left := s.List(everyone, 1); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

// TestRace lists requests while others begin, change and end.
func TestRace(t *testing.T) {
	var s Set
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 200 {
				var e Entry
				s.Begin(&e, Request{Model: "m"})
				e.Enter(Running)
				e.SetProcess(new(appserver.Process))
				e.Add(1)
				if !slices.ContainsFunc(s.List(everyone, 100), func(r Request) bool { return r.Model == "m" }) {
					t.Error("it is not listed")
				}
				e.Release()
			}
		})
	}
	running.Wait()
	if left := s.List(everyone, 100); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

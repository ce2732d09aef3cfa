package conversation

import (
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// severalThreads is a lease on app-servers that keep these threads.
type severalThreads struct {
	Lease
	all []*Threads
}

func (l severalThreads) Resume(_ string, claim func(Member) bool) (Member, func(), bool) {
	for _, threads := range l.all {
		if claim(Member{Threads: threads}) {
			return Member{}, func() {}, true
		}
	}
	return Member{}, nil, false
}

// TestKept: the tokens of a kept thread, and of what is new to it, are found in whichever app-server it is. The thread
// stays there.
func TestKept(t *testing.T) {
	with, without := NewThreads(Limits{}, nil), NewThreads(Limits{}, nil)
	with.unload = func(*keptThread) {}
	defer with.Close()
	c := chain(t, ann, input("And the second question?"), message("user", "Hi"), message("assistant", "Hello"))
	link := c.Links[len(c.Links)-1]
	plan := &prompt.Plan{History: items(t, message("user", "Hi"), message("assistant", "Hello"))}
	plan.Turn.Input = input("And the second question?")
	kept := &keptThread{hash: link.Hash, context: 500}
	with.byHash[link.Hash] = with.push(kept, time.Hour)
	for name, test := range map[string]struct {
		all  []*Threads
		want int
	}{
		"alone": {[]*Threads{with}, 506}, "the first": {[]*Threads{with, without}, 506}, "the last": {[]*Threads{without, with}, 506},
		"none": {[]*Threads{without}, 0},
	} {
		tokens, found := new(Opener).Kept(t.Context(), severalThreads{all: test.all}, plan, c)
		if tokens != test.want || found != (test.want > 0) || len(with.byHash) != 1 {
			t.Errorf("%s: %d %t", name, tokens, found)
		}
	}
}

package claims

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestClaim(t *testing.T) {
	b := NewBudget(100, 0, NewCrowd(nil))
	one, other := b.Claim("a"), b.Claim("a")
	if !one.Grow(60) || !other.Fits(40) || !other.Grow(40) || other.Fits(1) || other.Grow(1) {
		t.Errorf("%d and %d of 100 bytes", one.Size(), other.Size())
	}
	one.Shrink(70) // it has less
	one.Shrink(50)
	if b.Held() != 90 || !other.Grow(10) {
		t.Errorf("%d bytes are held", b.Held())
	}
	one.Release()
	one.Release()
	other.Release()
	if b.Held() != 0 || !one.Grow(100) {
		t.Errorf("%d bytes are held", b.Held())
	}
}

// TestKept: large claims leave an eighth to small ones.
func TestKept(t *testing.T) {
	b := NewBudget(16*smallClaim, 0, NewCrowd(nil))
	large, growing := b.Claim("a"), b.Claim("a")
	if large.Fits(15*smallClaim) || large.Grow(15*smallClaim) || !large.Grow(13*smallClaim) || !growing.Grow(smallClaim) {
		t.Error("a large claim has taken", large.Size())
	}
	if growing.Grow(1) {
		t.Error("a small one has become large")
	}
	if one, two := b.Claim("a"), b.Claim("a"); !one.Grow(smallClaim) || !two.Grow(smallClaim) || b.Claim("a").Grow(1) {
		t.Errorf("small ones have taken %d", b.Held())
	}
}

// TestConcurrently: whatever claims do at once, there is never more in use than
// there is, and in the end nothing is.
func TestConcurrently(t *testing.T) {
	b := NewBudget(1000, 0, NewCrowd(nil))
	var all sync.WaitGroup
	for i := range 8 {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			c := b.Claim("a")
			defer c.Release()
			for range 5000 {
				if before := c.Size(); !c.Grow(random.Int64N(300)) && c.Size() != before {
					t.Errorf("%d bytes after a refusal, %d before", c.Size(), before)
				}
				if held := b.Held(); held > 1000 || held < c.Size() {
					t.Errorf("%d bytes are held, %d by one", held, c.Size())
				}
				c.Shrink(random.Int64N(300))
			}
		})
	}
	all.Wait()
	if b.Held() != 0 {
		t.Errorf("%d bytes are left", b.Held())
	}
}

// TestShareOfBudget: how much users get who take all that they can, one after the other.
func TestShareOfBudget(t *testing.T) {
	several := func() bool { return true }
	for name, c := range map[string]struct {
		least int64
		known func() bool
		users []string
		want  string
	}{
		"alone":             {0, nil, []string{"a"}, "[900]"},
		"without names":     {0, several, []string{"", "b"}, "[900 0]"},
		"one of several":    {0, several, []string{"a"}, "[450]"},
		"three":             {0, several, []string{"a", "b", "c"}, "[450 225 112]"},
		"with a least":      {300, several, []string{"a", "b", "c"}, "[450 300 150]"},
		"nothing is free":   {900, several, []string{"a", "b"}, "[900 0]"},
		"nobody else known": {0, func() bool { return false }, []string{"a", "b"}, "[900 0]"},
	} {
		b := NewBudget(900, c.least, NewCrowd(c.known))
		var got []int64
		for _, user := range c.users {
			sum := int64(0)
			for one := b.Claim(user); one.Grow(1); one = b.Claim(user) {
				sum++
			}
			got = append(got, sum)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestShareIsKept: whatever users claim and give back in whatever order, each holds its share
// at most, and one who holds nothing gets something.
func TestShareIsKept(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		limit := 100 + random.Int64N(1000)
		b := NewBudget(limit, 0, NewCrowd(func() bool { return true }))
		users := []string{"a", "b", "c", "d"}
		held := map[string]int64{}
		all := map[*Claim]string{}
		for range 300 {
			user := users[random.IntN(len(users))]
			c := b.Claim(user)
			all[c] = user
			if n := 1 + random.Int64N(limit/4); c.Grow(n) {
				if held[user] += n; held[user] > limit-b.Held() {
					t.Fatalf("seed %d: %s holds %d, and %d of %d stay free", seed, user, held[user], limit-b.Held(), limit)
				}
			}
			for c, user := range all {
				if random.IntN(4) == 0 {
					held[user] -= c.Size()
					c.Release()
					delete(all, c)
				}
			}
			if newcomer := b.Claim("newcomer"); !newcomer.Grow(max(1, limit/64)) {
				t.Fatalf("seed %d: %d of %d are held, and a newcomer gets nothing", seed, b.Held(), limit)
			} else {
				newcomer.Release()
			}
		}
	}
}

// TestBudgetForgetsUsers checks that a budget remembers those who hold something, in any order of
// their claims.
func TestBudgetForgetsUsers(t *testing.T) {
	b := NewBudget(1000, 0, NewCrowd(nil))
	random := rand.New(rand.NewPCG(1, 2))
	var all []*Claim
	for range 20 {
		all = append(all, b.Claim(string(rune('a'+random.IntN(10)))))
	}
	for range 5000 {
		if c := all[random.IntN(len(all))]; c.Size() > 0 {
			c.Shrink(random.Int64N(c.Size()) / 2)
		} else {
			c.Grow(random.Int64N(3))
		}
		held := make(map[string]int64)
		for _, c := range all {
			if c.Size() > 0 {
				held[c.user] += c.Size()
			}
		}
		if !maps.Equal(b.users, held) {
			t.Fatalf("the users hold %v, and %v is counted", held, b.users)
		}
	}
}

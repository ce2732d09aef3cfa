package apikeys

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

func sharing(shares ...int64) *Set {
	s := new(Set)
	for i, share := range shares {
		k := &Key{Key: quota.Key{ID: fmt.Sprint(i), PlanShare: max(share, -share), Lends: share < 0}}
		s.Keys, s.lends = append(s.Keys, k), s.lends || k.Lends
	}
	return s
}

// known returns a window of 1000 with used percent, and a part of its time that is left.
func known(used, rest float64, costs map[string]int64) usage.Known {
	const length = 100_000_000 // so that a second is nothing
	window := usage.PlanWindow{Length: length, Resets: time.Now().Unix() + int64(rest*length), Used: used}
	return usage.Known{PlanWindow: window, Whole: 1000, Costs: costs}
}

func most(s *Set, k *Key, w usage.Known) float64 {
	return float64(s.PlanLimits([]usage.Known{w})(&k.Key)[0].Max)
}

// TestShare has windows of 1000, with the shares of keys in thousandths; the negative ones lend.
func TestShare(t *testing.T) {
	for name, c := range map[string]struct {
		shares     []int64
		costs      [3]int64
		used, rest float64
		want       float64 // of the first key
	}{
		"alone":                               {shares: []int64{200}, want: 200, rest: 0.5},
		"nobody lends":                        {shares: []int64{200, 200}, want: 200, rest: 0.5},
		"it alone lends":                      {shares: []int64{-200, 200}, want: 200, rest: 0.5},
		"at the begin":                        {shares: []int64{200, -400}, want: 200, rest: 1},
		"after a half":                        {shares: []int64{200, -400}, want: 400, rest: 0.5},
		"at the end":                          {shares: []int64{200, -400}, want: 600},
		"the lender has used some":            {shares: []int64{200, -400}, costs: [3]int64{0, 150}, want: 250, rest: 0.5},
		"the lender is ahead of its time":     {shares: []int64{200, -400}, costs: [3]int64{0, 300}, want: 200, rest: 0.5},
		"another one has borrowed":            {shares: []int64{200, -400, 100}, costs: [3]int64{0, 0, 250}, want: 250, rest: 0.5},
		"another one has borrowed everything": {shares: []int64{200, -400, 100}, costs: [3]int64{0, 0, 350}, want: 200, rest: 0.5},
		"it has lent what is free":            {shares: []int64{-400, 200}, costs: [3]int64{0, 350}, used: 0.5, want: 400, rest: 0.5},
		"it has lent":                         {shares: []int64{-400, 200}, costs: [3]int64{50, 350}, used: 0.75, want: 300, rest: 0.5},
		"what it has lent is needed":          {shares: []int64{-400, 200, 200}, costs: [3]int64{50, 350, 0}, used: 0.7, want: 150, rest: 0.5},
		"a plan that is spent":                {shares: []int64{-400, 200, 200}, costs: [3]int64{50, 0, 0}, used: 1, want: 400, rest: 0.5},
		"others use the plan":                 {shares: []int64{200, -400}, costs: [3]int64{190}, used: 0.75, want: 240, rest: 0.5},
		"others have used the plan":           {shares: []int64{200, -400}, costs: [3]int64{190}, used: 0.9, want: 200, rest: 0.5},
	} {
		use := known(100*c.used, c.rest, map[string]int64{"0": c.costs[0], "1": c.costs[1], "2": c.costs[2]})
		s := sharing(c.shares...)
		if got := most(s, s.Keys[0], use); math.Abs(got-c.want) > 1 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	s := sharing(200, -400)
	s.Keys[1].Expires = time.Now()
	if got := most(s, s.Keys[0], known(0, 0, nil)); got != 200 {
		t.Errorf("an expired key lends: %v", got)
	}
	s = sharing(200, 0, -400)
	if got := most(s, s.Keys[0], known(0, 0, map[string]int64{"1": 500})); got != 600 {
		t.Errorf("a key without a share borrows: %v", got)
	}
	if got := s.PlanLimits([]usage.Known{known(0, 0, nil)})(&s.Keys[1].Key); got != nil {
		t.Errorf("a key without a share has %v", got)
	}
	if got := most(s, s.Keys[0], usage.Known{}); got != 0 {
		t.Errorf("what a window holds is not known, but it allows %v", got)
	}
}

// TestSharesOfAll lets random keys share a whole window. What a key keeps is always there for it: all of its
// share, or of a share that it lends and has not begun to use, as much as the window has time left.
func TestSharesOfAll(t *testing.T) {
	seeds := draw.Random(t)
	for range draw.Cases(50, 1000) {
		seed := seeds.Uint64()
		random := rand.New(rand.NewPCG(seed, 5))
		s, left := new(Set), int64(1000)
		for left > 0 {
			share := 1 + random.Int64N(left)
			left -= share
			s.Keys = append(s.Keys, &Key{Key: quota.Key{ID: fmt.Sprint(len(s.Keys)), PlanShare: share, Lends: random.IntN(2) == 0}})
			s.lends = s.lends || s.Keys[len(s.Keys)-1].Lends
		}
		const steps, capacity, cost = 200, 1_000_000, 200
		w := known(0, 1, make(map[string]int64))
		w.Whole = capacity
		even, idle, lent := s.Keys[random.IntN(len(s.Keys))], s.Keys[random.IntN(len(s.Keys))], false
		ask := func(k *Key, n int64) (served bool) {
			share := most(s, k, w)
			if lent = lent || share > float64(k.PlanShare)*capacity/1000; float64(w.Costs[k.ID]+n) > share {
				return false
			}
			w.Costs[k.ID] += n
			w.Used += 100 * float64(n) / capacity
			return true
		}
		for i := range steps {
			rest := 1 - float64(i)/steps
			w.Resets = time.Now().Unix() + int64(rest*float64(w.Length))
			if !ask(even, even.PlanShare*capacity/1000/steps) && !even.Lends {
				t.Fatalf("seed %d: a user who uses a share evenly is refused after %d steps", seed, i)
			}
			for range random.IntN(60) {
				if k := s.Keys[random.IntN(len(s.Keys))]; k != even && k != idle {
					ask(k, cost)
				}
			}
			kept := 0.0
			for _, k := range s.Keys {
				share := float64(k.PlanShare) * capacity / 1000
				unused := max(0, share-float64(w.Costs[k.ID]))
				if k == idle && k.Lends {
					kept += min(unused, share*rest)
				} else if !k.Lends {
					kept += unused
				}
			}
			if w.Used/100+kept/capacity > 1+1e-4 {
				t.Fatalf("seed %d: after %d steps %v are used, and %v are to be kept", seed, i, w.Used, kept/capacity)
			}
		}
		if lends := slices.ContainsFunc(s.Keys, func(k *Key) bool { return k.Lends }); lent && !lends {
			t.Fatalf("seed %d: nobody lends", seed)
		}
	}
}

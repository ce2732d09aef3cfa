package apikeys

import (
	"fmt"
	"math"
	"math/rand/v2"
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
		"more is lent than the plan has":      {shares: []int64{-600, -600, -600}, used: 0.1, want: 600, rest: 1},
		"it has used some of that":            {shares: []int64{-600, -600, -600}, costs: [3]int64{300, 400}, used: 0.8, want: 500, rest: 1},
		"a part of that is not lent":          {shares: []int64{-600, -600, 300}, costs: [3]int64{100, 300, 100}, used: 0.5, want: 400, rest: 1},
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

// TestSharesOfAll lets random keys use a whole window, together with a program that is no key. The shares that are not
// lent are never missing. Who lends is refused only if nothing else is left, or if its share is used up. Who borrows
// leaves what the others keep: all of a share that is not lent, and of one that is lent, as much as the window has time.
func TestSharesOfAll(t *testing.T) {
	seeds := draw.Random(t)
	for range draw.Cases(50, 1000) {
		seed := seeds.Uint64()
		random := rand.New(rand.NewPCG(seed, 5))
		s, left := new(Set), int64(1000)
		for left > 0 {
			k := quota.Key{ID: fmt.Sprint(len(s.Keys)), PlanShare: 1 + random.Int64N(left), Lends: random.IntN(2) == 0}
			if s.lends = s.lends || k.Lends; !k.Lends || random.IntN(2) == 0 { // else the shares are more than the plan
				left -= k.PlanShare
			}
			s.Keys = append(s.Keys, &Key{Key: k})
		}
		const steps, capacity, cost = 200, 1_000_000, 200
		w := known(0, 1, make(map[string]int64))
		w.Whole = capacity
		rest, borrowed := 1.0, false
		share := func(k *Key) float64 { return float64(k.PlanShare) * capacity / 1000 }
		free := func(reserved func(*Key) float64) float64 { // what is left of the plan, without what is reserved for keys
			free := capacity * (1 - w.Used/100)
			for _, k := range s.Keys {
				free -= min(max(0, share(k)-float64(w.Costs[k.ID])), reserved(k))
			}
			return free
		}
		firm := func(k *Key) float64 {
			if k.Lends {
				return 0
			}
			return share(k)
		}
		ask := func(k *Key, n int64) {
			used := float64(w.Costs[k.ID] + n)
			if w.Used >= 100 { // the plan refuses it
				return
			}
			if used > most(s, k, w) {
				if used <= share(k) && (!k.Lends || float64(n)+1 < free(firm)) {
					t.Fatalf("seed %d: key %s has used %v of %v, and %v are free, but it is refused", seed, k.ID, w.Costs[k.ID], share(k), free(firm))
				}
				return
			}
			w.Costs[k.ID] += n
			w.Used += 100 * float64(n) / capacity
			if kept := func(k *Key) float64 { return max(firm(k), share(k)*rest) }; used > share(k) {
				if borrowed = true; free(kept) < -100 {
					t.Fatalf("seed %d: key %s has borrowed, and %v is missing", seed, k.ID, -free(kept))
				}
			}
		}
		even, idle := s.Keys[random.IntN(len(s.Keys))], s.Keys[random.IntN(len(s.Keys))]
		for i := range steps {
			rest = 1 - float64(i)/steps
			w.Resets = time.Now().Unix() + int64(rest*float64(w.Length))
			ask(even, even.PlanShare*capacity/1000/steps)
			for range random.IntN(60) {
				if k := s.Keys[random.IntN(len(s.Keys))]; k != even && k != idle {
					ask(k, cost)
				}
			}
			if other := min(random.Float64()*1000, free(firm)); other > 0 && random.IntN(2) == 0 {
				w.Used += 100 * other / capacity
			}
			if free(firm) < -100 {
				t.Fatalf("seed %d: after %d steps, %v of the shares that are not lent is missing", seed, i, -free(firm))
			}
		}
		if borrowed && !s.lends {
			t.Fatalf("seed %d: nobody lends", seed)
		}
	}
}

package apikeys

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

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
	must.OK(t, err)
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
		"key a {\n" + hashOf("") + "\n}":                         {3, "that of nothing"},
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
		"key a {\n" + h + "\nToken 9 1h\n}":                      {3, `unknown option "Token" of a key; did you mean tokens?`},
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

func TestParseLimits(t *testing.T) {
	set, err := parse([]byte("key a {\n"+hashOf("x")+"\nmax_concurrent 4\nrequests 60 1m\nrequests 1_000 day\ntokens 5 7d\ntokens 9 day\nplan_share 12.5%\nlend on\nspent no\n}"), "keys")
	must.OK(t, err)
	var limits []string
	for _, l := range set.Keys[0].Limits {
		limits = append(limits, fmt.Sprint(l.Max, " ", l.Unit, " ", l.Window))
	}
	if got, want := strings.Join(limits, ", "), "60 requests 1m, 1000 requests day, 5 tokens 168h, 9 tokens day"; got != want || set.Keys[0].MaxConcurrent != 4 {
		t.Errorf("%s, %d at once", got, set.Keys[0].MaxConcurrent)
	}
	if k := set.Keys[0]; k.PlanShare != 125 || !k.Lends || !k.StaysIfSpent {
		t.Errorf("%d of the plan, lends %t", k.PlanShare, k.Lends)
	}
	for line, want := range map[string]string{
		"spent yes":                     "spent takes only no",
		"max_concurrent 0":              "max_concurrent takes a number above zero",
		"max_concurrent 1 2":            "max_concurrent takes a number above zero",
		"requests 60":                   "requests takes a number and a window",
		"requests 60 1m x":              "requests takes a number and a window",
		"requests 0 1m":                 "requests takes a number above zero",
		"requests -1 1m":                "requests takes a number above zero",
		"requests 1125899906842625 1m":  "requests takes a number above zero",
		"requests 60 minute":            "requests has a wrong window: it is neither",
		"requests 60 10ms":              "requests has a wrong window",
		"requests 60 367d":              "requests has a wrong window",
		"plan_share 20":                 "plan_share takes a share above 0 and up to 100%",
		"plan_share 0%":                 "plan_share takes a share above 0",
		"plan_share 0.04%":              "plan_share takes a share above 0",
		"plan_share 100.1%":             "plan_share takes a share above 0",
		"plan_share 12.55%":             "plan_share takes a share above 0",
		"plan_share NaN%":               "plan_share takes a share above 0",
		"plan_share 20% 5h":             "plan_share takes a share above 0",
		"plan_share 2%\nplan_share 3%":  "plan_share is given twice",
		"plan_share 2%\nlend yes":       "lend must be on or off",
		"lend on":                       "the key a has no plan_share to lend",
		"requests 1 1m\nrequests 2 60s": "requests has two limits for a window of 1m",
		"requests 1 1h\nrequests 1 1s\nrequests 1 2s\nrequests 1 3s\nrequests 1 4s\nrequests 1 5s\nrequests 1 6s\nrequests 1 7s\nrequests 1 8s": "requests is one limit too many",
	} {
		_, err := parse([]byte("key a {\n"+hashOf("x")+"\n"+line+"\n}"), "keys")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("key a {\n" + hashOf("x") + "\nuser b\nexpires 2027-01-31\nmodels a b\n}"))
	f.Add([]byte("key a {\n" + hashOf("x") + "\nplan_share 12.5%\nlend on\n}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		set, err := parse(content, "keys")
		if err != nil {
			return
		}
		for _, k := range set.Keys {
			if !validID.MatchString(k.ID) || k.User == "" || set.byHash[k.Hash] != k || k.PlanShare < 0 || k.PlanShare > 1000 || k.Lends && k.PlanShare == 0 {
				t.Errorf("%+v", k)
			}
		}
	})
}

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

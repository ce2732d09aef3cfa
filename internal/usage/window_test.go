package usage

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// plan is a meter with one window that is counted as providers count it: whole percents are told, the window
// begins with its first use, and its reset varies by seconds. Now and then it is reset early.
type plan struct {
	random  *rand.Rand
	length  time.Duration
	resets  time.Time // zero: the window has not begun
	used    float64
	told    []PlanWindow      // as last told
	records []Record          // what is counted, in order
	shares  map[share]float64 // what was really used
}

type share struct {
	resets int64
	key    string
}

func (p *plan) use(now time.Time, key string, percent float64) {
	if !p.resets.After(now) {
		p.tell(now) // this server asks when a window has ended
		p.resets, p.used = now.Add(p.length), 0
	}
	percent = min(percent, 100-p.used)
	p.used += percent
	p.shares[share{p.resets.Unix(), key}] += percent
}

func (p *plan) windows(now time.Time) []PlanWindow {
	resets, used := p.resets, math.Floor(p.used+1e-9)
	if !p.resets.After(now) {
		resets, used = now.Add(p.length), 0
	}
	resets = resets.Add(time.Duration(p.random.IntN(40)) * time.Second)
	return PlanWindows("login", &codexrpc.Meter{ID: "codex", Primary: &codexrpc.RateWindow{UsedPercent: used, Window: p.length, ResetsAt: resets}}, now)
}

func (p *plan) tell(now time.Time) {
	p.told = p.windows(now)
	p.records = append(p.records, Record{Time: now, Told: true, Windows: p.told})
}

// fall resets the window, once or twice within seconds, or lowers its use as a larger plan does. It begins no window so
// soon after another of which little is used that nobody can tell them apart.
func (p *plan) fall(now time.Time) time.Time {
	age := now.Sub(p.resets.Add(-p.length))
	forget := func() {
		maps.DeleteFunc(p.shares, func(s share, _ float64) bool { return s.resets == p.resets.Unix() })
	}
	switch {
	case p.random.IntN(2) == 0 && p.used >= 20 && age < p.length/2:
		forget()
		p.used = math.Floor(p.used / 5)
		p.shares[share{p.resets.Unix(), "elsewhere"}] = p.used
	case age > 10*time.Minute:
		p.resets, p.used = time.Time{}, 0
		p.tell(now)
		p.use(now, "elsewhere", 8+8*p.random.Float64())
		p.tell(now)
		now = now.Add(5 * time.Second)
		forget()
		p.resets, p.used = time.Time{}, 0
	}
	now = now.Add(5 * time.Second)
	for range 3 { // to all nodes
		p.tell(now)
	}
	return now
}

// run uses the plan for some windows by turns of keys, of which one percent costs 100,000, and in between, while
// no turn runs, by another program.
func (p *plan) run(keys []string, elsewhere bool) {
	now := time.Unix(1_800_000_000, 0)
	p.tell(now)
	for range 300 {
		now = now.Add(time.Duration(p.random.Int64N(int64(p.length / 20))))
		p.tell(now)
		if p.random.IntN(20) == 0 {
			now = p.fall(now)
		}
		if elsewhere && p.random.IntN(3) == 0 {
			now = now.Add(p.length / 30)
			p.use(now, "elsewhere", float64(p.random.IntN(5)))
			p.tell(now)
			now = now.Add(p.length / 30)
			p.tell(now)
			continue
		}
		for range 1 + p.random.IntN(3) { // turns at once, or one after the other
			key, took := keys[p.random.IntN(len(keys))], time.Duration(p.random.Int64N(int64(p.length/50)))
			cost := p.random.Int64N(200_000)
			p.use(now, key, float64(cost)/100_000)
			if now = now.Add(took); !p.resets.After(now) {
				p.tell(now)
			}
			p.records = append(p.records, Record{
				Time: now, Duration: took, Key: key, Model: "gpt-5", Mode: "json", Status: 200, Meter: "codex",
				Usage: codexrpc.Usage{InputTokens: cost / 10, OutputTokens: 0, TotalTokens: cost / 10}, Windows: p.told,
			})
			now = now.Add(time.Duration(p.random.IntN(20)) * time.Second)
			p.tell(now)
		}
	}
}

func newPlan(seed uint64) *plan {
	lengths := []time.Duration{5 * time.Hour, 7 * 24 * time.Hour, time.Hour}
	return &plan{random: rand.New(rand.NewPCG(seed, 49)), length: lengths[seed%3], shares: make(map[share]float64)}
}

// checkSums fails if the shares of a window are not the use that the provider has told.
func checkSums(t *testing.T, windows []WindowUsage) {
	t.Helper()
	for _, w := range windows {
		sum := w.Others
		for _, percent := range w.ByKey {
			sum += percent
		}
		if math.Abs(sum-w.Used) > 1e-6 || w.Others < 0 {
			t.Errorf("%+v: the sum is %v", w, sum)
		}
	}
}

// checkSame fails if a window is not in got, as far as whole percents can tell. In got may be more: one that has ended
// early is forgotten only if its reset is that of the next one.
func checkSame(t *testing.T, seed uint64, want, got []WindowUsage) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(g WindowUsage) bool {
			return g.Used == w.Used && math.Abs(g.Others-w.Others) <= 1 && math.Abs(g.ByKey["ann"]-w.ByKey["ann"]) <= 1.5
		}) {
			t.Errorf("seed %d: %+v is not in %+v", seed, w, got)
		}
	}
}

// TestWindowShares: each window's shares are what keys have really used, within what whole percents can tell, and
// what another program has used while no turns ran is nobody's.
func TestWindowShares(t *testing.T) {
	for seed := range uint64(draw.Cases(40, 2_000)) {
		keys, elsewhere := []string{"ann", "ben", "cid"}, seed%2 == 1
		p, b := newPlan(seed), New()
		p.run(keys, elsewhere)
		for _, r := range p.records {
			b.Add(r)
		}
		windows := b.Account(Everybody, 0).Windows
		checkSums(t, windows)
		if len(windows) < 2 || len(windows) > 3*maxLast {
			t.Errorf("seed %d: %d windows", seed, len(windows))
		}
		for _, w := range windows[:len(windows)-1] {
			really := func(key string) (percent float64) {
				for s, used := range p.shares {
					if s.key == key && w.Resets >= s.resets && w.Resets <= s.resets+100 {
						percent += used
					}
				}
				return percent
			}
			most := 1.001 // what a whole percent hides
			if elsewhere {
				most = 3
			}
			if got := w.Others - really("elsewhere"); math.Abs(got) > most {
				t.Errorf("seed %d: %+v: %v were used elsewhere", seed, w, really("elsewhere"))
			}
		}
	}
}

// TestWindowOrder: three nodes that see what happens at different times, and store it in any order, have the same
// windows as one that sees all.
func TestWindowOrder(t *testing.T) {
	for seed := range uint64(draw.Cases(20, 500)) {
		p, whole := newPlan(seed), New()
		p.run([]string{"ann", "ben"}, true)
		nodes := []*Book{New(), New(), New()}
		node := nodes[0] // that of the last turn, which asks after it
		for i, r := range p.records {
			if whole.Add(r); r.Told { // others see it, too
				nodes[i%3].Add(r)
			} else {
				node = nodes[p.random.IntN(3)]
			}
			node.Add(r)
		}
		merged := New()
		for _, i := range p.random.Perm(3) {
			restore(t, merged, nodes[i])
		}
		want, got := whole.Account(Everybody, 0).Windows, merged.Account(Everybody, 0).Windows
		checkSums(t, got)
		checkSame(t, seed, want[max(0, len(want)-maxLast):], got)
	}
}

// TestSharedWindows counts a plan's turns at three nodes, of which each sees each step at a time of its own.
func TestSharedWindows(t *testing.T) {
	server, p, whole := redisserver.Start(t), newPlan(7), New()
	nodes := []*Shared{newNode(t, server), newNode(t, server), newNode(t, server)}
	p.run([]string{"ann", "ben"}, true)
	node := nodes[0] // that of the last turn, which asks after it
	for i, r := range p.records {
		if whole.Add(r); !r.Told {
			node = nodes[p.random.IntN(3)]
		}
		if node.Add(r); r.Told {
			r.Time = r.Time.Add(time.Second)
			nodes[i%3].Add(r)
		}
		if i%5 == 0 {
			must.OK(t, nodes[p.random.IntN(3)].Store(t.Context()))
		}
	}
	for _, node := range nodes {
		must.OK(t, node.Store(t.Context()))
		node.Add(Record{Time: time.Now(), Told: true})
		if n := node.Unstored(); n != 0 {
			t.Errorf("%d turns are not stored", n)
		}
	}
	want := whole.Account(Everybody, 0).Windows
	for _, node := range nodes {
		a, err := node.Account(t.Context(), Everybody, 0)
		must.OK(t, err)
		checkSums(t, a.Windows)
		checkSame(t, 7, want, a.Windows)
		last := whole.windows[len(whole.windows)-1].PlanWindow
		if units := node.Known(last).Whole; units < 80_000*100 || units > 125_000*100 {
			t.Errorf("a window holds %d", units)
		}
	}
}

// A user sees what the user's keys have used, and the rest only as a sum.
func TestOwnWindows(t *testing.T) {
	b, now := New(), time.Now()
	window := PlanWindow{"login", "codex", 18000, now.Unix() + 3600, 10}
	b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{window}})
	for _, user := range []string{"ann", "ben", "ben"} {
		r := record(user, "id")
		r.Key, r.Windows, r.Meter = user+"-laptop", []PlanWindow{window}, "codex"
		b.Add(r)
	}
	window.Used = 40
	b.Add(Record{Time: now.Add(time.Minute), Told: true, Windows: []PlanWindow{window, {"other", "codex", 18000, now.Unix() + 60, 50}}})
	got := b.Account("ann", 0)
	if w := got.Windows; len(w) != 1 || w[0].Used != 40 || math.Abs(w[0].ByKey["ann-laptop"]-10) > 1e-9 || len(w[0].ByKey) != 1 || math.Abs(w[0].Others-30) > 1e-9 {
		t.Errorf("%+v", w)
	}
	if len(got.ByKey) != 1 || got.ByKey[0].Name != "ann-laptop" || got.ByKey[0].Turns != 1 || len(got.ByMeter) != 1 || got.ByMeter[0].Name != "codex" || got.ByAPI[0].Name != "chat" {
		t.Errorf("%+v", got)
	}
	if all := b.Account(Everybody, 0).Windows; len(all) != 2 || len(all[1].ByKey) != 2 || math.Abs(all[1].Others-10) > 1e-9 {
		t.Errorf("%+v", all)
	}
	if later := b.Account(Everybody, now.Unix()).Windows; len(later) != 2 {
		t.Errorf("%+v", later)
	}
}

// TestEarlyReset: a week that is reset an hour after its begin, as by a credit, is another window, of which nothing is used.
func TestEarlyReset(t *testing.T) {
	b, now, week := New(), time.Now(), int64(7*24*3600)
	for _, told := range []PlanWindow{{Resets: now.Unix() + week, Used: 40}, {Resets: now.Unix() + week + 30, Used: 41}, {Resets: now.Unix() + week + 3600}} {
		told.Login, told.Meter, told.Length = "login", "codex", week
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{told}})
	}
	if w := b.Account(Everybody, 0).Windows; len(w) != 2 || w[0].Used != 41 || w[1].Used != 0 {
		t.Errorf("%+v", w)
	}
}

// TestWindowBounds: neither many meters nor many keys nor a window that never begins take memory without end.
func TestWindowBounds(t *testing.T) {
	b, now := New(), time.Unix(1_800_000_000, 0)
	for i := range 2 * maxWindows {
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{{fmt.Sprint("login", i), "codex", 18000, now.Unix() + int64(i), 1}}})
	}
	if len(b.windows) != maxWindows {
		t.Errorf("%d windows", len(b.windows))
	}
	b = New()
	for i := range 2000 {
		now = now.Add(10 * time.Minute)
		w := PlanWindow{"login", "codex", 18000, now.Unix() + 18000, 0}
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{w}})
		b.Add(Record{Time: now, Duration: 1000 * time.Hour, Key: fmt.Sprint("key", i), Usage: codexrpc.Usage{InputTokens: 1}, Windows: []PlanWindow{w}})
	}
	if w := b.windows[0]; len(b.windows) != 1 || len(w.Told) > 110 || len(w.Ran) > 110 || len(w.Costs) != maxKeys+1 {
		t.Errorf("%d windows, %d slots with uses, %d with turns, %d keys", len(b.windows), len(w.Told), len(w.Ran), len(w.Costs))
	}
}

// TestSince: what is shown since a day, and documents that were stored before there were days by name.
func TestSince(t *testing.T) {
	b, now := New(), time.Now()
	must.OK(t, b.Restore([]byte(`{"version":1,"id":"x","since":5,"accounts":{"ann":{"requests":4,"models":{"old":{"requests":4}},"days":[{"start":0,"requests":4}]}}}`)))
	for _, days := range []int{10, 2, 0} {
		r := record("ann", "id")
		r.Time, r.Tools.Pictures = now.AddDate(0, 0, -days), 1
		b.Add(r)
	}
	b.Add(refusal("ann", "id"))
	all, since := b.Account("ann", 0), b.Account("ann", now.AddDate(0, 0, -3).Unix())
	if all.Requests != 8 || all.Since != 5 || len(all.ByModel) != 2 || all.ByModel[1].Requests != 4 || all.Pictures != 3 {
		t.Errorf("%+v", all)
	}
	if since.Requests != 3 || since.Turns != 2 || since.Refusals["unknown_url"] != 1 || len(since.ByModel) != 1 || since.ByModel[0].Requests != 2 ||
		since.ByKey[0].Refusals["unknown_url"] != 1 || len(since.ByDay) != 2 || since.Since != days.partStart(now.AddDate(0, 0, -3).Unix()) {
		t.Errorf("%+v", since)
	}
	since.ByKey[0].Refusals["unknown_url"], since.ByDay[1].Refusals["unknown_url"] = 99, 99
	if b.Account("ann", 0).Refusals["unknown_url"] != 1 || b.accounts["ann"].Days[2].Refusals["unknown_url"] != 1 {
		t.Error("what is shown shares memory with the book")
	}
}

// TestPlanWindows leaves out windows that are over or not known, and takes two resets that vary for one window.
func TestPlanWindows(t *testing.T) {
	now := time.Unix(1_800_000_010, 0)
	window := func(resets time.Time) *codexrpc.RateWindow {
		return &codexrpc.RateWindow{UsedPercent: 3, Window: 5 * time.Hour, ResetsAt: resets}
	}
	for name, m := range map[string]*codexrpc.Meter{
		"none": nil, "over": {Primary: window(now)}, "without a reset": {Primary: window(time.Time{})},
		"without a length": {Primary: &codexrpc.RateWindow{ResetsAt: now.Add(time.Hour)}},
	} {
		if got := PlanWindows("a", m, now); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	first := PlanWindows("a", &codexrpc.Meter{ID: "codex", Primary: window(now.Add(time.Hour))}, now)[0]
	if want := (PlanWindow{"a", "codex", 18000, 1_800_003_660, 3}); first != want {
		t.Errorf("%+v", first)
	}
	b := New()
	for _, seconds := range []time.Duration{3600, 3590, 3660} {
		w := PlanWindows("a", &codexrpc.Meter{ID: "codex", Primary: window(now.Add(seconds * time.Second))}, now)
		b.Add(Record{Time: now, Key: "ann", Usage: codexrpc.Usage{InputTokens: 100}, Windows: w})
		if known := b.Known(w[0]); known.Resets != first.Resets || known.Costs["ann"]%1000 != 0 {
			t.Errorf("%+v", known)
		}
	}
	if known := b.Known(first); known.Costs["ann"] != 3000 {
		t.Errorf("%+v", known)
	}
}

// TestCapacity learns what a window holds while turns run: what they have cost since the use was last told does
// not count.
func TestCapacity(t *testing.T) {
	now, b := time.Now(), New()
	w := PlanWindow{Login: "a", Meter: "codex", Length: 18000, Resets: now.Unix() + 9000}
	know := func(want int64) {
		t.Helper()
		if known := b.Known(w); known.Whole != want {
			t.Errorf("100 %% are %d, want %d", known.Whole, want)
		}
	}
	told := func(used float64) {
		w.Used = used
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{w}})
	}
	turn := func() {
		b.Add(Record{Time: now, Key: "ann", Usage: codexrpc.Usage{InputTokens: 100}, Windows: []PlanWindow{w}})
	}
	told(10)
	turn()
	turn()
	told(12)
	know(0)
	turn()
	turn()
	turn()
	told(15)
	know(100_000)
	turn()
	turn()
	know(100_000)
	stored := New()
	restore(t, stored, b)
	if known := stored.Known(w); known.Whole != 100_000 {
		t.Errorf("restored: %d", known.Whole)
	}
	w.Resets, w.Used = w.Resets+20000, 0 // the next window
	know(100_000)
}

// TestResetsStay: once a window has begun, it keeps its reset, whatever another node says that knows less.
func TestResetsStay(t *testing.T) {
	now, b := time.Now(), New()
	resets := now.Unix()/60*60 + 9000
	for _, c := range []struct {
		used         float64
		resets, want int64
	}{{0, 0, 0}, {0, 60, 60}, {1, 120, 120}, {0, 180, 120}, {2, 60, 120}} {
		w := PlanWindow{Login: "a", Meter: "codex", Length: 18000, Resets: resets + c.resets, Used: c.used}
		b.Add(Record{Time: now, Told: true, Windows: []PlanWindow{w}})
		if known := b.Known(w); known.Resets != resets+c.want {
			t.Errorf("%+v: it resets after %d s", c, known.Resets-resets)
		}
	}
}

// TestUseThatFalls: use that falls far begins a new window, with another reset and without costs, also for a node that
// was not told yet. Neither a little less than the highest use, nor what was told before it, nor turns do that.
func TestUseThatFalls(t *testing.T) {
	now, b := time.Unix(1_800_000_000, 0), New()
	begun := PlanWindow{Login: "a", Meter: "codex", Length: 18000, Resets: now.Unix() + 18000}
	for _, c := range []struct {
		at, later   int64 // seconds
		used        float64
		turn        bool
		resets      int64 // after begun.Resets
		wantedCosts int64
	}{
		{at: 1, used: 30},
		{at: 2, used: 30, turn: true, wantedCosts: 1000},
		{at: 1, used: 3, wantedCosts: 1000}, // another node stores late
		{at: 3, used: 25, later: 60, wantedCosts: 1000},
		{at: 4, used: 0, resets: 1},
		{at: 2, used: 30, resets: 1},
		{at: 5, used: 30, turn: true, resets: 1, wantedCosts: 1000}, // of a node that was not told yet
		{at: 6, used: 0, later: 60, resets: 60, wantedCosts: 1000},
		{at: 7, used: 20, later: 60, resets: 60, wantedCosts: 1000},
		{at: 8, used: 2, later: 60, resets: 61},
		{at: 9, used: 3, turn: true, resets: 61, wantedCosts: 1000},
		{at: 9, used: 0, later: 600, resets: 600}, // far enough from the last one
		{at: 10, used: 3, turn: true, resets: 600},
	} {
		w := begun
		w.Used, w.Resets = c.used, w.Resets+c.later
		r := Record{Time: now.Add(time.Duration(c.at) * time.Second), Told: !c.turn, Key: "ann", Windows: []PlanWindow{w}}
		if c.turn {
			r.Usage = codexrpc.Usage{InputTokens: 100}
		}
		b.Add(r)
		stored := New()
		restore(t, stored, b)
		for _, known := range []Known{b.Known(begun), stored.Known(begun)} {
			if known.Resets != begun.Resets+c.resets || known.Costs["ann"] != c.wantedCosts {
				t.Errorf("%+v: %+v", c, known)
			}
		}
	}
}

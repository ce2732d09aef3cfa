package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// planLimits returns shares of some windows of a plan. Their limits change as more is known of the windows.
func planLimits(random *rand.Rand, ends []time.Time) (shares []Limit) {
	for i, end := range ends {
		if random.IntN(4) > 0 {
			shares = append(shares, Limit{PlanShare, random.Int64N(3000), PlanWindow([]string{"5h codex", "7d codex"}[i], end), 0})
		}
	}
	return shares
}

// TestSameResults does random operations with both engines at random times: they answer the same.
func TestSameResults(t *testing.T) {
	server := redisserver.Start(t)
	windows := []Window{sliding(t, time.Second), sliding(t, 90*time.Second), sliding(t, 5*time.Hour), calendar(t, day), calendar(t, week), calendar(t, month)}
	seeds := draw.Random(t)
	for range draw.Cases(3, 12) {
		seed := seeds.Uint64()
		random := rand.New(rand.NewPCG(seed, 7))
		c := newClock()
		c.move(time.Duration(random.Int64N(100_000_000)) * time.Second)
		memory, shared := NewLedger(c.Now), newRedis(t, server, c)
		k := &Key{Account: fmt.Sprint("same-", seed)}
		for _, w := range windows {
			if random.IntN(2) == 0 {
				k.Limits = append(k.Limits, Limit{Requests, 1 + random.Int64N(30), w, 0})
			}
			if random.IntN(2) == 0 {
				k.Limits = append(k.Limits, Limit{Tokens, 1 + random.Int64N(3000), w, 0})
			}
		}
		var turns []string
		base := k
		ends := []time.Time{c.Now().Add(5 * time.Hour), c.Now().Add(7 * 24 * time.Hour)} // of the windows of a plan
		for i := range 200 {
			k = base.With(planLimits(random, ends))
			if j := random.IntN(2); random.IntN(8) == 0 && !ends[j].After(c.Now()) { // otherwise the next window is not known yet
				ends[j] = c.Now().Add(time.Duration(1+random.Int64N(int64(20*24*time.Hour)/1e9)) * time.Second)
			}
			o := Op{Kind: []Kind{Look, Reserve, Reserve, Reserve, Take, Raise, Settle}[random.IntN(7)], N: random.Int64N(100)}
			switch o.Kind {
			case Reserve:
				for j := range random.IntN(4) {
					o.Turns = append(o.Turns, fmt.Sprint("turn-", i, "-", j))
				}
				o.Ahead = random.Int64N(200)
				turns = append(turns, o.Turns...)
			case Take, Raise, Settle:
				if len(turns) == 0 {
					continue
				}
				o.Turns = []string{turns[random.IntN(len(turns))]}
				o.Held = memory.account(k.Account).reservedByTurn[o.Turns[0]]
				if o.Kind == Settle {
					o.Cost = random.Int64N(300)
					turns = slices.DeleteFunc(turns, func(turn string) bool { return turn == o.Turns[0] })
				}
			}
			got, err := memory.Do(t.Context(), k, o)
			other, otherErr := shared.Do(t.Context(), k, o)
			if fmt.Sprint(err) != fmt.Sprint(otherErr) || err == nil && o.Kind != Look && (got.Granted != other.Granted || got.Remaining != other.Remaining) {
				t.Fatalf("seed %d, %d: %+v: %+v, %v; in Redis %+v, %v", seed, i, o, got, err, other, otherErr)
			}
			if err != nil {
				e, _ := errors.AsType[*ExceededError](err)
				if f, _ := errors.AsType[*ExceededError](otherErr); !e.Resets.Equal(f.Resets) {
					t.Fatalf("seed %d, %d: resets %s, in Redis %s", seed, i, e.Resets, f.Resets)
				}
			}
			if want, is := fmt.Sprint(memory.states(k)), fmt.Sprint(other.snapshot.states(NewLimits(shared, 0, false), k)); want != is {
				t.Fatalf("seed %d, %d, after %+v: %s; in Redis %s", seed, i, o, want, is)
			}
			switch random.IntN(12) {
			case 0:
				c.move(time.Duration(random.Int64N(10_000)) * time.Second)
			case 1:
				c.move(40 * 24 * time.Hour)
			default:
				c.move(time.Duration(random.Int64N(2_000_000)) * time.Microsecond)
			}
		}
	}
}

// TestNodesExact lets nodes use up the limits of a key at the same time, with clocks an hour apart:
// exactly what a limit allows is let through, and a request that has no tokens left counts as none.
// An emptied script cache does not matter.
func TestNodesExact(t *testing.T) {
	server := redisserver.Cluster(t)
	k := &Key{Account: "k", Limits: []Limit{{Requests, 600, sliding(t, time.Hour), 0}, {Tokens, 20_000, calendar(t, month), 0}}}
	var all sync.WaitGroup
	var mu sync.Mutex
	requests, tokens := 0, int64(0)
	for node := range 3 {
		engine := newRedis(t, server, nil)
		engine.now = func() time.Time { return time.Now().Add(time.Duration(node-1) * time.Hour) }
		l := NewLimits(engine, 256, false)
		for range 8 {
			all.Go(func() {
				for i := range 60 {
					r, err := l.Begin(k)
					var grants []*Grant
					if err == nil {
						grants, _ = r.Acquire(1)
						err = r.Reserve(t.Context(), grants, 20)
					}
					if err != nil {
						e, ok := errors.AsType[*ExceededError](err)
						if !ok || e.Limit.Unit == Requests && (e.Resets.Sub(engine.now()) < 50*time.Minute || e.Resets.Sub(engine.now()) > 64*time.Minute) {
							t.Error(err)
						}
						for _, g := range grants {
							g.Close(0)
						}
						continue
					}
					used := int64(20)
					for range 4 {
						used += int64(grants[0].Take(5 + i%8))
					}
					grants[0].Close(used)
					mu.Lock()
					requests, tokens = requests+1, tokens+used
					mu.Unlock()
				}
			})
		}
	}
	server.Do("SCRIPT FLUSH")
	all.Wait()
	if requests == 600 {
		t.Error("the tokens should have ended before")
	}
	without := &Key{Account: "k", Limits: k.Limits[:1]} // no tokens
	for range 3 {
		node := NewLimits(newRedis(t, server, nil), 0, false)
		all.Go(func() {
			got := admitted(node, without, 300)
			mu.Lock()
			defer mu.Unlock()
			requests += got
		})
	}
	all.Wait()
	if requests != 600 || tokens > 20_000 || tokens < 20_000-40 {
		t.Errorf("%d requests and %d tokens", requests, tokens)
	}
	for _, s := range statesOf(NewLimits(newRedis(t, server, nil), 0, false), k) {
		if want := map[Unit]int64{Requests: 600, Tokens: tokens}[s.Unit]; s.Used != want {
			t.Errorf("%d %s are counted, %d were used", s.Used, s.Unit, want)
		}
	}
}

// TestHoldsEnd lets nodes end between taking tokens and settling: what they held counts as used, and
// the turns no longer share what is left.
func TestHoldsEnd(t *testing.T) {
	c := newClock()
	engine := newRedis(t, redisserver.Start(t), c)
	engine.reservationTime = reservationTime
	l := NewLimits(engine, 0, false)
	k := &Key{Account: "k", Limits: []Limit{{Tokens, 1000, sliding(t, 30*time.Minute), 0}}}
	lost, err := reserve(t, l, k, 300)
	must.OK(t, err)
	if got := lost.Take(100); got != 100 {
		t.Fatal(got)
	}
	c.move(reservationTime + time.Second)
	other, err := reserve(t, l, k, 100)
	must.OK(t, err)
	if got := other.Take(1000); got != 250 {
		t.Errorf("a turn that is alone takes %d of 500", got)
	}
	other.Close(200)
	if s := statesOf(l, k)[0]; s.Used != 600 {
		t.Errorf("%+v", s)
	}
	lost.Close(450) // it was only stopped
	if s := statesOf(l, k)[0]; s.Used != 650 {
		t.Errorf("%+v", s)
	}
	c.move(21 * time.Minute) // the window of what was held begins when the hold has ended
	if s := statesOf(l, k)[0]; s.Used != 650 {
		t.Errorf("%+v", s)
	}
	c.move(20 * time.Minute)
	if s := statesOf(l, k)[0]; s.Used != 0 {
		t.Errorf("%+v", s)
	}
}

// TestHoldsOfLongTurns lets what turns hold end while they run, before they write more, end or are undone:
// what they use counts once.
func TestHoldsOfLongTurns(t *testing.T) {
	c := newClock()
	engine := newRedis(t, redisserver.Start(t), c)
	engine.reservationTime = reservationTime
	l := NewLimits(engine, 0, false)
	k := &Key{Account: "k", Limits: []Limit{{Requests, 100, sliding(t, 10*time.Hour), 0}, {Tokens, 10000, sliding(t, 10*time.Hour), 0}}}
	used := func(what string, requests, tokens int64) {
		t.Helper()
		if s := statesOf(l, k); s[0].Used != requests || s[1].Used != tokens {
			t.Errorf("%s: %d requests and %d tokens are used, not %d and %d", what, s[0].Used, s[1].Used, requests, tokens)
		}
	}
	begin := func() *Grant {
		g, err := reserve(t, l, k, 300)
		must.OK(t, err)
		c.move(reservationTime + time.Second)
		return g
	}
	begin().Close(0)
	used("ended without a token", 1, 0)

	long := begin()
	begin().Close(0) // counts what long has held
	if got := long.Take(100); got != 100 {
		t.Fatal(got)
	}
	long.Close(350)
	used("written more", 3, 350)

	o := Op{Kind: Reserve, N: 300, ID: strings.Repeat("i", 26), Turns: []string{strings.Repeat("t", 26)}, At: c.Now()}
	if _, err := engine.Do(t.Context(), k, o); err != nil {
		t.Fatal(err)
	}
	c.move(reservationTime + time.Second)
	o.Kind = Undo
	if _, err := engine.Do(t.Context(), k, o); err != nil {
		t.Fatal(err)
	}
	used("undone", 3, 350)
}

// TestAnswersLost does operations again whose answers are lost: they are done once.
func TestAnswersLost(t *testing.T) {
	engine := newRedis(t, redisserver.Start(t), newClock())
	run := engine.run
	engine.run = func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error) {
		if _, err := run(ctx, script, account, args...); err != nil {
			return nil, err
		}
		return run(ctx, script, account, args...)
	}
	l := NewLimits(engine, 10, false)
	k := &Key{Account: "k", Limits: []Limit{{Requests, 4, sliding(t, time.Hour), 0}, {Tokens, 1000, sliding(t, time.Hour), 0}}}
	g, err := reserve(t, l, k, 100)
	must.OK(t, err)
	if got := admitted(l, k, 5); got != 3 {
		t.Errorf("%d more requests", got)
	}
	if got := g.Take(100) + g.Take(50); got != 60 || g.reserved != 160 {
		t.Errorf("took %d, holds %d", got, g.reserved)
	}
	if !g.Raise(200) || statesOf(l, k)[1].Used != 200 {
		t.Errorf("%+v", statesOf(l, k))
	}
	shares := []Limit{{PlanShare, 1000, PlanWindow("5h codex", newClock().now.Add(time.Hour)), 0}}
	g.Settle(150, 70, shares)
	if s := statesOf(l, k.With(shares)); s[1].Used != 150 || s[2].Used != 70 {
		t.Errorf("%+v", s)
	}
}

// TestSettleAgain settles a turn whose answer is lost, and settles it again later: it is counted once,
// also if it has used more than was reserved for it.
func TestSettleAgain(t *testing.T) {
	engine := newRedis(t, redisserver.Start(t), newClock())
	run, lost := engine.run, false
	engine.run = func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error) {
		answer, err := run(ctx, script, account, args...)
		if lost {
			return nil, errors.New("the answer is lost")
		}
		return answer, err
	}
	l := NewLimits(engine, 10, false)
	k := &Key{Account: "k", Limits: []Limit{{Tokens, 1000, sliding(t, time.Hour), 0}}}
	g, err := reserve(t, l, k, 100)
	must.OK(t, err)
	lost = true
	g.Close(300)
	lost = false
	if l.Unsettled() != 1 {
		t.Errorf("%d turns are to be settled again", l.Unsettled())
	}
	l.Settle(t.Context())
	if s := statesOf(l, k)[0]; s.Used != 300 || len(l.unsettled) > 0 {
		t.Errorf("%+v, %d are not settled", s, len(l.unsettled))
	}
}

// TestRedisFails: requests are refused while the engine does not work, or let through if that is
// wanted. Turns that run go on, and what they use is counted once it works again.
func TestRedisFails(t *testing.T) {
	server := redisserver.Start(t)
	engine := newRedis(t, server, nil)
	run, fails := engine.run, false
	engine.run = func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error) {
		if fails {
			return nil, errors.New("down")
		}
		return run(ctx, script, account, args...)
	}
	k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Hour), 0}, {Tokens, 1000, sliding(t, time.Hour), 0}}}
	closed, open := NewLimits(engine, 0, false), NewLimits(engine, 0, true)
	g, err := reserve(t, closed, k, 100)
	must.OK(t, err)
	fails = true
	if err := begin(closed, k); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if _, err := reserve(t, closed, k, 1); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if got := g.Take(50); got != 50 || !g.Raise(120) {
		t.Errorf("a turn that runs takes %d", got)
	}
	g.Close(150)
	if err := begin(open, k); err != nil {
		t.Error(err)
	}
	h, err := reserve(t, open, k, 10)
	must.OK(t, err)
	h.Close(20)
	if states := statesOf(closed, k); states != nil {
		t.Errorf("%+v", states)
	}
	closed.Settle(t.Context()) // still down
	fails = false
	closed.Settle(t.Context())
	open.Settle(t.Context())
	if s := statesOf(closed, k)[1]; s.Used != 170 {
		t.Errorf("%+v", s)
	}
	if len(closed.unsettled)+len(open.unsettled) > 0 {
		t.Error("something is not settled")
	}
}

// TestFullRedis: limits are counted although nothing else can be stored.
func TestFullRedis(t *testing.T) {
	server := redisserver.Start(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	l := NewLimits(newRedis(t, server, nil), 0, false)
	for i := 0; !strings.HasPrefix(server.Do(fmt.Sprintf("SETRANGE x %d y", i<<20)), "-OOM"); i++ {
		if i == 100 {
			t.Fatal("it does not get full")
		}
	}
	k := &Key{Account: "k", Limits: []Limit{{Requests, 3, sliding(t, time.Hour), 0}, {Tokens, 1000, sliding(t, time.Hour), 0}}}
	g, err := reserve(t, l, k, 100)
	must.OK(t, err)
	if got := admitted(l, k, 5); got != 2 {
		t.Errorf("%d more requests", got)
	}
	g.Close(120)
	if s := statesOf(l, k); s[0].Used != 3 || s[1].Used != 120 {
		t.Errorf("%+v", s)
	}
}

// network is between an engine and its Redis.
type network struct {
	how  string   // "lost": answers get lost; "never": nothing arrives; "late": everything arrives at a call of deliver
	late []func() // what has not arrived yet
}

// openNetwork returns an engine and its network, which works.
func openNetwork(t *testing.T, server *redisserver.Server) (*Redis, *network) {
	engine, n := newRedis(t, server, nil), &network{}
	run := engine.run
	engine.run = func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error) {
		switch n.how {
		case "":
			return run(ctx, script, account, args...)
		case "lost":
			_, _ = run(ctx, script, account, args...)
		case "late":
			n.late = append(n.late, func() {
				if _, err := run(t.Context(), script, account, args...); err != nil {
					t.Error(err)
				}
			})
		}
		return nil, errors.New("no answer")
	}
	return engine, n
}

func (n *network) deliver() {
	for _, arrive := range n.late {
		arrive()
	}
}

// TestUndo checks that a request that is refused since Redis does not answer is not charged, whether
// it arrives, arrives late, or never, and that other requests are charged all the same.
func TestUndo(t *testing.T) {
	server := redisserver.Start(t)
	hour := sliding(t, time.Hour)
	for unit, limits := range map[string][]Limit{"both": {{Requests, 200, hour, 0}, {Tokens, 10_000, hour, 0}}, "requests": {{Requests, 200, hour, 0}}} {
		for _, how := range []string{"lost", "never", "late"} {
			t.Run(unit+" "+how, func(t *testing.T) {
				engine, n := openNetwork(t, server)
				l, k := NewLimits(engine, 10, false), &Key{Account: unit + how, Limits: limits}
				if got := admitted(l, k, 3); got != 3 {
					t.Fatal(got)
				}
				n.how = how
				for range 5 {
					r, err := l.Begin(k)
					must.OK(t, err)
					grants, err := r.Acquire(2)
					must.OK(t, err)
					if err := r.Reserve(t.Context(), grants, 100); !errors.Is(err, ErrUnavailable) {
						t.Error(err)
					}
					for _, g := range grants {
						g.Close(0)
					}
				}
				l.Settle(t.Context()) // its answers get lost, too
				n.how = ""
				if turns := l.Unsettled(); turns != 0 {
					t.Errorf("%d refused requests count as turns that are not settled", turns)
				}
				between := admitted(l, k, 100)
				l.Settle(t.Context())
				n.deliver() // the first operations, and what took them back
				for i, s := range statesOf(l, k) {
					if want := []int64{103, 0}[i]; s.Used != want {
						t.Errorf("%d %s are used, not %d", s.Used, s.Unit, want)
					}
				}
				if between != 100 || len(l.unsettled) > 0 {
					t.Errorf("%d requests later, %d are not settled", between, len(l.unsettled))
				}
			})
		}
	}
}

// TestUndoOpen checks that a request that is let through uncounted counts no request, but its tokens.
func TestUndoOpen(t *testing.T) {
	for _, how := range []string{"lost", "never", "late"} {
		engine, n := openNetwork(t, redisserver.Start(t))
		k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Hour), 0}, {Tokens, 1000, sliding(t, time.Hour), 0}}}
		l := NewLimits(engine, 10, true)
		n.how = how
		g, err := reserve(t, l, k, 100)
		must.OK(t, err)
		n.how = ""
		if got := g.Take(30); got != 30 {
			t.Error(got)
		}
		g.Close(130)
		l.Settle(t.Context())
		n.deliver()
		if s := statesOf(l, k); s[0].Used != 0 || s[1].Used != 130 || len(l.unsettled) > 0 {
			t.Errorf("%s: %+v, %d are not settled", how, s, len(l.unsettled))
		}
	}
}

// An operation of a turn that arrives after the turn was settled reserves nothing.
func TestLateTake(t *testing.T) {
	engine, n := openNetwork(t, redisserver.Start(t))
	k := &Key{Account: "k", Limits: []Limit{{Tokens, 1000, sliding(t, time.Hour), 0}}}
	l := NewLimits(engine, 0, false)
	for _, late := range []func(*Grant){func(g *Grant) { g.Take(50) }, func(g *Grant) { g.Raise(200) }} {
		g, err := reserve(t, l, k, 100)
		must.OK(t, err)
		n.how = "late"
		late(g)
		n.how = ""
		g.Close(10)
		l.Settle(t.Context())
		n.deliver()
	}
	if s := statesOf(l, k)[0]; s.Used != 20 {
		t.Errorf("%+v", s)
	}
}

// TestNotSent checks that nothing is to be undone if nothing was sent.
func TestNotSent(t *testing.T) {
	engine := NewRedis(func(context.Context, *redis.Script, string, ...any) (any, error) { return nil, ErrNotSent })
	l := NewLimits(engine, 0, false)
	k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Hour), 0}}}
	if err := begin(l, k); !errors.Is(err, ErrUnavailable) || len(l.unsettled) > 0 {
		t.Errorf("%v, %d are not settled", err, len(l.unsettled))
	}
}

// TestNodesShare lets three nodes use up a key's share of two windows at the same time: what the turns have
// cost is counted exactly, in the windows of the login that served each, and the share is exceeded by no
// more than the turns that run.
func TestNodesShare(t *testing.T) {
	server := redisserver.Cluster(t)
	const share, mostCost, workers = 20_000, 40, 4
	k := &Key{Account: "k", PlanShare: 200, MaxConcurrent: workers}
	end := time.Now().Add(time.Hour)
	window := func(login string) []Limit {
		return []Limit{{PlanShare, share, PlanWindow("5h codex "+login, end), 0}, {PlanShare, 1 << 40, PlanWindow("7d codex "+login, end), 0}}
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	costs := make(map[string]int64)
	for node := range 3 {
		l := NewLimits(newRedis(t, server, nil), 256, false)
		for worker := range workers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(node), uint64(worker)))
				for {
					r, err := l.Begin(k)
					must.OK(t, err)
					grants, err := r.Acquire(1)
					must.OK(t, err)
					if err := r.Reserve(t.Context(), grants, 20, window("a")...); err != nil {
						e, ok := errors.AsType[*ExceededError](err)
						if !ok || e.Limit.Unit != PlanShare || e.Used < share || e.Resets.Sub(end).Abs() > 2*time.Second {
							t.Errorf("%+v", err)
						}
						grants[0].Close(0)
						return
					}
					served, cost := []string{"a", "a", "b"}[random.IntN(3)], random.Int64N(mostCost+1)
					grants[0].Settle(1, cost, window(served))
					mu.Lock()
					costs[served] += cost
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if most := int64(share + 3*workers*mostCost); costs["a"] < share || costs["a"] > most || costs["b"] == 0 {
		t.Errorf("the turns have cost %v, the share is %d", costs, share)
	}
	l := NewLimits(newRedis(t, server, nil), 0, false)
	for login, cost := range costs {
		for _, s := range statesOf(l, k.With(window(login))) {
			if s.Used != cost {
				t.Errorf("%d are counted in %s, and %d were used", s.Used, s.Window, cost)
			}
		}
	}
}

// TestShareSettled: a lost answer, an operation that arrives late or a request that is undone changes
// nothing in what turns have cost, and what an engine could not count is counted later.
func TestShareSettled(t *testing.T) {
	for _, how := range []string{"lost", "late", "never"} {
		for _, open := range []bool{false, true} {
			engine, n := openNetwork(t, redisserver.Start(t))
			l, k := NewLimits(engine, 0, open), &Key{Account: "k", PlanShare: 200}
			shares := []Limit{{PlanShare, 1000, PlanWindow("5h codex", time.Now().Add(time.Hour)), 0}}
			begin := func() (*Grant, error) {
				r, err := l.Begin(k)
				must.OK(t, err)
				grants, err := r.Acquire(1)
				must.OK(t, err)
				return grants[0], r.Reserve(t.Context(), grants, 100, shares...)
			}
			first, err := begin()
			must.OK(t, err)
			n.how = how
			second, err := begin()
			if open != (err == nil) {
				t.Error(err)
			}
			for _, g := range []*Grant{first, second} {
				g.Settle(50, 300, shares)
			}
			n.how = ""
			l.Settle(t.Context())
			n.deliver()
			want := map[bool]int64{false: 300, true: 600}[open]
			if s := statesOf(l, k.With(shares)); s[0].Used != want || len(l.unsettled) > 0 {
				t.Errorf("%s, open %t: %+v, %d are not settled", how, open, s, len(l.unsettled))
			}
		}
	}
}

package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/test/draw"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newClock returns a clock at noon of a Sunday, the last of a month.
func newClock() *clock { return &clock{now: time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)} }

func sliding(t testing.TB, length time.Duration) Window {
	t.Helper()
	w, err := ParseWindow(length.String())
	must.OK(t, err)
	return w
}

func calendar(t testing.TB, period string) Window {
	t.Helper()
	w, err := ParseWindow(period)
	must.OK(t, err)
	return w
}

// engines tests each engine, on a clock that the test sets.
func engines(t *testing.T, test func(t *testing.T, c *clock, l *Limits)) {
	t.Run("memory", func(t *testing.T) {
		c := newClock()
		l := NewLimits(NewLedger(c.Now), 0, false)
		l.now = c.Now
		test(t, c, l)
	})
	t.Run("redis", func(t *testing.T) {
		c := newClock()
		l := NewLimits(newRedis(t, redisserver.Cluster(t), c), 0, false)
		l.now = c.Now
		test(t, c, l)
	})
}

// newRedis returns an engine on a clock that the test sets; nil: that of the server.
func newRedis(t *testing.T, server *redisserver.Server, c *clock) *Redis {
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	r := NewRedis(func(ctx context.Context, script *redis.Script, account string, args ...any) (any, error) {
		if c != nil {
			now := c.Now().UnixMicro()
			script = redis.NewScript(strings.Replace(operateText, "redis.call('TIME')", fmt.Sprintf("{'%d', '%d'}", now/1e6, now%1e6), 1))
		}
		return script.Run(ctx, client, []string{"codex:{key:" + account + "}:"}, args...).Result()
	})
	if c != nil {
		r.now, r.reservationTime = c.Now, 50*366*24*time.Hour
	}
	return r
}

// admitted returns how many of n requests are admitted.
func admitted(l *Limits, k *Key, n int) (got int) {
	for range n {
		if begin(l, k) == nil {
			got++
		}
	}
	return got
}

func TestRequests(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Minute), 0}, {Requests, 25, calendar(t, day), 0}}}
		other := &Key{Account: "other", Limits: k.Limits}
		if got := admitted(l, k, 20); got != 10 {
			t.Errorf("%d at once", got)
		}
		exceeded, ok := errors.AsType[*ExceededError](begin(l, k))
		if !ok || exceeded.Used != 10 || exceeded.Limit.Max != 10 || !exceeded.Resets.Equal(c.now.Add(time.Minute+3*time.Second)) {
			t.Errorf("%+v", exceeded)
		}
		if got := admitted(l, other, 20); got != 10 {
			t.Errorf("%d of another key", got)
		}
		c.move(62 * time.Second)
		if got := admitted(l, k, 1); got != 0 {
			t.Error("before the end of the window")
		}
		c.now = exceeded.Resets
		if got := admitted(l, k, 20); got != 10 {
			t.Errorf("%d in the next window", got)
		}
		c.move(2 * time.Minute)
		if got := admitted(l, k, 20); got != 5 {
			t.Errorf("%d of the rest of the day", got)
		}
		if exceeded, _ := errors.AsType[*ExceededError](begin(l, k)); !exceeded.Resets.Equal(time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v", exceeded)
		}
		states := statesOf(l, k)
		if states[0].Used != 5 || states[1].Used != 25 || states[1].Remaining() != 0 {
			t.Errorf("%+v", states)
		}
		c.move(12 * time.Hour)
		if got := admitted(l, k, 20); got != 10 {
			t.Errorf("%d on the next day", got)
		}
	})
}

// TestRefusedCountNothing: a request that a limit of either unit refuses counts for neither, and those
// after one beyond a limit of requests are refused without asking the engine, for a moment.
func TestRefusedCountNothing(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", Limits: []Limit{{Requests, 2, sliding(t, time.Minute), 0}, {Tokens, 100, sliding(t, time.Hour), 0}}}
		used := func(requests, tokens int64) {
			t.Helper()
			if s := statesOf(l, k); s[0].Used != requests || s[1].Used != tokens {
				t.Errorf("%+v", s)
			}
		}
		first, err := reserve(t, l, k, 60)
		must.OK(t, err)
		used(1, 60)
		if _, err := reserve(t, l, k, 50); err == nil {
			t.Error("more tokens than are left")
		}
		used(1, 60)
		second, err := reserve(t, l, k, 10)
		must.OK(t, err)
		if _, err := l.Begin(k); err != nil {
			t.Error(err)
		}
		exceeded, ok := errors.AsType[*ExceededError](begin(l, k))
		if !ok || exceeded.Limit.Unit != Requests {
			t.Fatal(exceeded)
		}
		used(2, 70)
		first.Close(5)
		second.Close(5)
		used(2, 10)
		refused, again := l.Begin(k)
		if e, ok := errors.AsType[*ExceededError](again); !ok || !e.Resets.Equal(exceeded.Resets) || len(refused.States()) != 2 {
			t.Errorf("%v", again)
		}
		raised := &Key{Account: "k", Limits: []Limit{{Requests, 3, sliding(t, time.Minute), 0}}}
		if err := begin(l, raised); err != nil {
			t.Errorf("with a limit that was raised: %v", err)
		}
		if begin(l, k) == nil {
			t.Error("it is not refused any more")
		}
		c.move(refusalTime)
		if _, err := l.Begin(k); err != nil {
			t.Error("the engine is not asked again")
		}
	})
}

// A turn does not take what the others need as long as there is enough for all.
func TestShares(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", Limits: []Limit{{Tokens, 1000, sliding(t, time.Hour), 0}}}
		grants, err := acquire(l, k, 4)
		must.OK(t, err)
		must.OK(t, reserveAll(grants, 0))
		for i, want := range []int{125, 109, 95, 83} { // an eighth of what is left
			if got := grants[i].Take(1000); got != want {
				t.Errorf("turn %d took %d, want %d", i, got, want)
			}
		}
		for _, g := range grants[1:] {
			g.Close(10)
		}
		if got := grants[0].Take(1000); got != 422 { // half of the rest, since it is alone
			t.Errorf("alone it took %d", got)
		}
	})
}

// TestManyRequestsAtOnce checks that goroutines together get no more than one alone.
func TestManyRequestsAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", MaxConcurrent: 7, Limits: []Limit{{Requests, 60, sliding(t, time.Hour), 0}}}
		free := &Key{Account: "free", Limits: []Limit{{Tokens, 1000, sliding(t, time.Hour), 0}}}
		var mu sync.Mutex
		requests, running, tokens := 0, 0, 0
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				request := begin(l, k) == nil
				_, err := acquire(l, k, 1)
				grants, _ := acquire(l, free, 1)
				got := 0
				if reserveAll(grants, 3) == nil {
					got = 3 + grants[0].Take(40)
				}
				mu.Lock()
				defer mu.Unlock()
				if request {
					requests++
				}
				if err == nil {
					running++
				}
				tokens += got
			})
		}
		all.Wait()
		if requests != 60 || running != 7 || tokens != 1000 && tokens != 999 && tokens != 998 && tokens != 997 {
			t.Errorf("%d requests, %d running, %d tokens", requests, running, tokens)
		}
	})
}

func TestConcurrency(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", MaxConcurrent: 3}
		grants, err := acquire(l, k, 2)
		must.OK(t, err)
		for turns, want := range map[int]bool{1: true, 2: false, 4: false} {
			more, err := acquire(l, k, turns)
			if got := err == nil; got != want {
				t.Errorf("%d more: %v", turns, err)
			}
			if err == nil {
				more[0].Close(0)
				more[0].Close(0)
			} else if e, ok := errors.AsType[*ConcurrencyError](err); !ok || e.Max != 3 || e.Wanted != turns {
				t.Error(err)
			}
		}
		for _, g := range grants {
			g.Close(5)
		}
		if _, err := acquire(l, k, 3); err != nil {
			t.Error(err)
		}
		for range 100 {
			if _, err := acquire(l, &Key{Account: "free"}, 8); err != nil {
				t.Error(err)
			}
		}
	})
}

// reserve returns the grant of a turn with an input, or nil if it is refused.
func reserve(t testing.TB, l *Limits, k *Key, input int64) (*Grant, error) {
	t.Helper()
	r := &Request{limits: l, key: k, lastKey: k}
	grants, err := r.Acquire(1)
	must.OK(t, err)
	if err := r.Reserve(context.Background(), grants, input); err != nil {
		grants[0].Close(0)
		return nil, err
	}
	return grants[0], nil
}

func TestGrants(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", Limits: []Limit{{Tokens, 100, calendar(t, day), 0}, {Tokens, 1000, calendar(t, month), 0}}}
		if grants, err := acquire(l, &Key{Account: "free", Limits: []Limit{{Requests, 1, calendar(t, day), 0}}}, 3); grants != nil || err != nil {
			t.Error("a key without such limits has some")
		}
		if _, err := reserve(t, l, k, 100); err == nil {
			t.Error("no token is left for the output")
		} else if e, _ := errors.AsType[*ExceededError](err); !e.Resets.IsZero() {
			t.Errorf("it can never succeed, but: %+v", e)
		}
		first, err := reserve(t, l, k, 40)
		must.OK(t, err)
		second, err := reserve(t, l, k, 20)
		must.OK(t, err)
		if _, err := reserve(t, l, k, 40); err == nil {
			t.Error("more than is left was reserved")
		} else if e, _ := errors.AsType[*ExceededError](err); e.Resets.Sub(c.now) != reservedWait {
			t.Errorf("turns hold what it wants, but: %+v", e)
		}
		if got := first.Take(30); got != minShare || first.Spent() {
			t.Errorf("took %d", got)
		}
		if got := first.Take(14); got != 14 {
			t.Errorf("took %d", got)
		}
		if got := second.Take(30); got != 10 || second.Spent() {
			t.Errorf("took %d of the rest", got)
		}
		if got := second.Take(1); got != 0 || !second.Spent() {
			t.Errorf("took %d of nothing", got)
		}
		first.Close(50)
		first.Close(50)
		if used := statesOf(l, k)[0].Used; used != 50+30 || statesOf(l, k)[1].Used != used {
			t.Errorf("%d are used", used)
		}
		if got := second.Take(30); got != minShare || second.Spent() {
			t.Errorf("took %d of what was given back", got)
		}
		if got := second.Take(30); got != 4 {
			t.Errorf("took %d of the rest of that", got)
		}
		second.Close(120) // the model has used more than was counted here
		if s := statesOf(l, k); s[0].Used != 170 || s[0].Remaining() != 0 || s[1].Remaining() != 830 {
			t.Errorf("%+v", s)
		}
		if got := second.Take(1); got != 0 {
			t.Error("took tokens after the end")
		}
		c.move(12 * time.Hour) // the next day and month
		if s := statesOf(l, k); s[0].Used != 0 || s[1].Used != 0 {
			t.Errorf("%+v", s)
		}
		grants, err := acquire(l, k, 2)
		if err != nil || reserveAll(grants, 50) == nil || reserveAll(grants, 49) != nil {
			t.Error("two turns want twice as many tokens")
		}
	})
}

// TestClockJumps sets the clock back and forth.
func TestClockJumps(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		for _, w := range []Window{sliding(t, time.Minute), calendar(t, day), calendar(t, week), calendar(t, month)} {
			c.now = newClock().now
			k := &Key{Account: "k" + w.String(), Limits: []Limit{{Requests, 10, w, 0}}}
			admitted(l, k, 10)
			for _, back := range []time.Duration{time.Minute, time.Hour, 40 * 24 * time.Hour, 366 * 24 * time.Hour} {
				c.move(-back)
				if got := admitted(l, k, 1); got != 0 {
					t.Errorf("%s: set back by %s, the limit is free", w, back)
				}
			}
			if s := statesOf(l, k)[0]; s.Used != 10 || s.Resets.After(c.now.Add(32*24*time.Hour)) {
				t.Errorf("%s: %d used until %s, now %s", w, s.Used, s.Resets, c.now)
			}
			c.now = statesOf(l, k)[0].Resets
			if got := admitted(l, k, 20); got != 10 {
				t.Errorf("%s: %d after the reset", w, got)
			}
		}
	})
}

// TestNeverExceeded admits requests and tokens in a random order at random times, and
// checks every stretch of time as long as a window.
func TestNeverExceeded(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		seeds := draw.Random(t)
		for range draw.Cases(2, 6) {
			seed := seeds.Uint64()
			random := rand.New(rand.NewPCG(seed, 1))
			c.now = newClock().now
			c.move(time.Duration(random.Int64N(int64(40 * 24 * time.Hour))))
			length := []time.Duration{time.Second, 7 * time.Second, time.Minute, 5 * time.Hour, 7 * 24 * time.Hour}[random.IntN(5)]
			k := &Key{Account: fmt.Sprint("k", seed), Limits: []Limit{
				{Requests, 1 + random.Int64N(20), sliding(t, length), 0}, {Requests, 1 + random.Int64N(60), calendar(t, []string{day, week, month}[random.IntN(3)]), 0},
				{Tokens, 1 + random.Int64N(500), sliding(t, length), 0}, {Tokens, 1 + random.Int64N(900), calendar(t, day), 0},
			}}
			log := make(map[Unit][]event)
			var open []*Grant
			for range 400 {
				switch random.IntN(6) {
				case 0:
					c.move(time.Duration(random.Int64N(int64(length))))
				case 1:
					c.move(time.Duration(random.Int64N(int64(length / 50))))
				case 2, 3:
					if begin(l, k) == nil {
						log[Requests] = append(log[Requests], event{c.now, 1})
					}
				case 4:
					if g, err := reserve(t, l, k, random.Int64N(60)); err == nil {
						log[Requests] = append(log[Requests], event{c.now, 1})
						g.Take(random.IntN(60))
						open = append(open, g)
					}
				case 5:
					if len(open) == 0 {
						continue
					}
					g := open[0]
					open = open[1:]
					used := random.Int64N(g.reserved + 1) // no more than was taken
					g.Close(used)
					log[Tokens] = append(log[Tokens], event{c.now, used})
				}
			}
			for _, limit := range k.Limits {
				checkEvents(t, seed, limit, log[limit.Unit])
			}
		}
	})
}

func begin(l *Limits, k *Key) error {
	r, err := l.Begin(k)
	if err != nil {
		return err
	}
	return r.Reserve(context.Background(), nil, 0)
}

func statesOf(l *Limits, k *Key) []State { return l.States(context.Background(), []*Key{k})[0] }

func acquire(l *Limits, k *Key, turns int) ([]*Grant, error) {
	return (&Request{limits: l, key: k, lastKey: k}).Acquire(turns)
}

func reserveAll(grants []*Grant, input int64) error {
	return grants[0].request.Reserve(context.Background(), grants, input)
}

// event is something that was counted.
type event struct {
	at time.Time
	n  int64
}

func checkEvents(t *testing.T, seed uint64, limit Limit, events []event) {
	t.Helper()
	for i, last := range events {
		sum := int64(0)
		for _, e := range events[:i+1] {
			within := last.at.Sub(e.at) < limit.Window.length
			if limit.Window.period != "" {
				within = limit.Window.periodStart(e.at, 0).Equal(limit.Window.periodStart(last.at, 0))
			}
			if within {
				sum += e.n
			}
		}
		if sum > limit.Max {
			t.Fatalf("seed %d: %d %s in a window of %s, the limit is %d", seed, sum, limit.Unit, limit.Window, limit.Max)
		}
	}
}

func TestWindows(t *testing.T) {
	now := time.Date(2028, 2, 29, 13, 14, 15, 16, time.FixedZone("", 3600))
	for period, want := range map[string][2]time.Time{
		day:   {time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)},
		week:  {time.Date(2028, 2, 28, 0, 0, 0, 0, time.UTC), time.Date(2028, 3, 6, 0, 0, 0, 0, time.UTC)},
		month: {time.Date(2028, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)},
	} {
		w := calendar(t, period)
		if begin, end := w.periodStart(now, 0), w.periodStart(now, 1); !begin.Equal(want[0]) || !end.Equal(want[1]) || w.String() != period {
			t.Errorf("%s: from %s to %s", w, begin, end)
		}
		if w.partStart(w.partAt(want[0])) != want[0].Local() || w.partAt(want[0]) == w.partAt(want[0].Add(-1)) {
			t.Errorf("the parts of a %s do not divide it", period)
		}
	}
	for length, want := range map[time.Duration]string{
		time.Second: "1s", time.Minute: "1m", 90 * time.Second: "1m30s", 5 * time.Hour: "5h", 7 * 24 * time.Hour: "168h", 90 * time.Minute: "1h30m",
	} {
		if got := sliding(t, length).String(); got != want {
			t.Errorf("%s is written %s", length, got)
		}
	}
	for _, length := range []time.Duration{0, -1, time.Millisecond, 367 * 24 * time.Hour} {
		if _, err := ParseWindow(length.String()); err == nil {
			t.Errorf("a window of %s", length)
		}
	}
	if _, err := ParseWindow("year"); err == nil {
		t.Error("a window of a year")
	}
}

// TestShareOfPlan uses up a key's share of a window. A request is refused until the window ends, even if more
// than the share was used, and also if the provider begins a new window early. What is charged after a
// window's end, or while nobody knows what it allows, refuses nothing.
func TestShareOfPlan(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k := &Key{Account: "k", PlanShare: 200}
		shares := func(most int64, ends time.Time) []Limit {
			return []Limit{{PlanShare, most, PlanWindow("5h codex", ends), 5000}}
		}
		turn := func(shares []Limit, cost int64) error {
			t.Helper()
			r, err := l.Begin(k)
			must.OK(t, err)
			grants, err := r.Acquire(1)
			must.OK(t, err)
			err = r.Reserve(t.Context(), grants, 5, shares...)
			grants[0].Settle(7, cost, shares)
			return err
		}
		end := c.now.Add(5 * time.Hour)
		must.OK(t, turn(shares(0, end), 300))
		must.OK(t, turn(shares(1000, end), 690))
		must.OK(t, turn(nil, 50)) // the windows are not known
		must.OK(t, turn(shares(1000, end), 40))
		c.move(5*time.Hour - time.Second)
		err := turn(shares(1000, end), 1)
		if e, ok := errors.AsType[*ExceededError](err); !ok || e.Used != 1030 || !e.Resets.Equal(end) {
			t.Fatalf("%+v", err)
		}
		must.OK(t, turn(shares(1031, end), 0)) // the window was found to allow more, or others lend
		s := statesOf(l, k.With(shares(1000, end)))[0]
		if limit, used, remaining := s.Shown(); limit != 20 || used != 20.6 || remaining != 0 || !s.Resets.Equal(end) {
			t.Errorf("shown %v of %v until %s", used, limit, s.Resets)
		}
		early := c.now.Add(4 * time.Hour)
		must.OK(t, turn(shares(1000, early), 1000))
		if turn(shares(1000, early), 1) == nil {
			t.Error("the share of the next window cannot be used up")
		}
		c.move(time.Second)
		must.OK(t, turn(shares(1000, end), 5000)) // this node does not know yet that it has ended
		if s := statesOf(l, k.With(shares(1000, end)))[0]; s.Used != 0 {
			t.Errorf("%d are used of a window that has ended", s.Used)
		}
	})
}

// TestSharesOfLogins: a request may be served as long as one login has something left of the key's share.
func TestSharesOfLogins(t *testing.T) {
	engines(t, func(t *testing.T, c *clock, l *Limits) {
		k, end := &Key{Account: "k", PlanShare: 200}, c.now.Add(5*time.Hour)
		window := func(name string, most int64) Limit { return Limit{PlanShare, most, PlanWindow(name, end), 5000} }
		short, week, other := window("5h codex a", 100), window("7d codex a", 1000), window("5h codex b", 100)
		turn := func(cost int64, charged ...Limit) (*Request, error) {
			t.Helper()
			r, err := l.Begin(k)
			must.OK(t, err)
			grants, err := r.Acquire(1)
			must.OK(t, err)
			err = r.Reserve(t.Context(), grants, 5, short, week, other)
			grants[0].Settle(7, cost, charged)
			return r, err
		}
		_, err := turn(100, short, week)
		must.OK(t, err)
		r, err := turn(0)
		if used := r.ShareUsed("a"); err != nil || used == nil || used.Limit != short || r.ShareUsed("b") != nil || r.ShareUsed("c") != nil {
			t.Errorf("one login is used up: %v, %v", err, used)
		}
		if _, err = turn(100, other); err != nil {
			t.Error(err)
		}
		if _, err = turn(0); err == nil {
			t.Error("the share of both logins is used up")
		}
	})
}

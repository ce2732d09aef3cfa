package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// newNode returns a node's usage. Each script runs twice, as if its first answer were lost.
func newNode(t *testing.T, server *redisserver.Server) *Shared {
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return NewShared(func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error) {
		key := []string{"codex:{" + tag + "}:"}
		if _, err := script.Run(ctx, client, key, args...).Result(); err != nil {
			return nil, err
		}
		return script.Run(ctx, client, key, args...).Result()
	})
}

// TestShared counts turns of many users at three nodes: each of them shows what a book shows that
// counts all of them.
func TestShared(t *testing.T) {
	server, whole := redisserver.Cluster(t), New()
	nodes := []*Shared{newNode(t, server), newNode(t, server), newNode(t, server)}
	users := []string{"", "ann", "b:ob", `"<c>`, "d\ne", "m.x:requests", "1", "a\x01b"}
	var all sync.WaitGroup
	var mu sync.Mutex
	for n, node := range nodes {
		all.Go(func() {
			for i := range 60 {
				r := record(users[(i+n)%len(users)], fmt.Sprint(n, "-", i))
				r.Model, r.Choice = []string{"model:0", "2", "users"}[i%3], i%2
				r.Price = 12345
				if i%5 == 0 {
					r.Status = 502
				}
				node.Add(r)
				mu.Lock()
				whole.Add(r)
				mu.Unlock()
			}
			if err := node.Store(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, user := range append(users, Everybody, "nobody") {
		want := whole.Account(user, 0)
		raw := whole.Raw(user)
		for n, node := range nodes {
			got, err := node.Account(t.Context(), user, 0)
			must.OK(t, err)
			if got.Since < want.Since || got.Since > time.Now().Unix() {
				t.Errorf("since %d", got.Since)
			}
			got.Since, got.Started = want.Since, want.Started
			if g, w := encode(t, got), encode(t, want); g != w {
				t.Errorf("node %d, %q:\n%s\nwant\n%s", n, user, g, w)
			}
			turns, err := node.Raw(t.Context(), user)
			if err != nil || len(turns.Data) != len(raw.Data) || encode(t, turns.ToolBufferMetrics) != encode(t, raw.ToolBufferMetrics) {
				t.Errorf("node %d, %q: %d turns, want %d; %v", n, user, len(turns.Data), len(raw.Data), err)
			}
		}
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must.OK(t, err)
	return string(text)
}

// TestSharedBounds counts more models and users than have counts of their own.
func TestSharedBounds(t *testing.T) {
	node := newNode(t, redisserver.Start(t))
	for i := range maxUsers + 5 {
		r := record(fmt.Sprint("user", i), "id")
		r.Model = fmt.Sprint("model", i%(maxModels+5))
		node.Add(r)
		if i%400 == 0 {
			must.OK(t, node.Store(t.Context()))
		}
	}
	a, err := node.Account(t.Context(), Everybody, 0)
	must.OK(t, err)
	sum := int64(0)
	for _, m := range a.ByModel {
		sum += m.Requests
	}
	if a.Requests != maxUsers+5 || len(a.ByModel) != maxModels+1 || sum != a.Requests || len(a.ByUser) != maxUsers+1 {
		t.Errorf("%d requests, %d of models, %d models, %d users", a.Requests, sum, len(a.ByModel), len(a.ByUser))
	}
}

// TestSharedKeys stores many batches: what is remembered of them does not grow.
func TestSharedKeys(t *testing.T) {
	server := redisserver.Start(t)
	node := newNode(t, server)
	for range 100 {
		node.Add(record("ann", "id"))
		must.OK(t, node.Store(t.Context()))
	}
	if a, err := node.Account(t.Context(), "ann", 0); err != nil || a.Requests != 100 {
		t.Errorf("%d requests, %v", a.Requests, err)
	}
	var keys int
	if _, err := fmt.Sscanf(server.Do("DBSIZE"), ":%d", &keys); err != nil || keys > 20 {
		t.Errorf("%d keys, %v", keys, err)
	}
}

// TestSharedOutage counts turns while Redis does not work: they are counted once it does.
func TestSharedOutage(t *testing.T) {
	node := newNode(t, redisserver.Start(t))
	run := node.run
	var mu sync.Mutex
	fails := true
	node.run = func(ctx context.Context, script *redis.Script, tag string, args ...any) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		if fails {
			return nil, errors.New("down")
		}
		return run(ctx, script, tag, args...)
	}
	for range 50 {
		node.Add(record("ann", "id"))
	}
	if _, err := node.Account(t.Context(), "ann", 0); err == nil {
		t.Error("it shows what it does not know")
	}
	if n := node.Unstored(); n != 50 {
		t.Errorf("%d turns are not stored", n)
	}
	mu.Lock()
	fails = false
	mu.Unlock()
	if a, err := node.Account(t.Context(), "ann", 0); err != nil || a.Requests != 50 {
		t.Errorf("%d requests, %v", a.Requests, err)
	}
	if n := node.Unstored(); n != 0 {
		t.Errorf("%d turns are not stored", n)
	}
}

// Refused requests at one node are counted and listed at another, and displace no turns.
func TestSharedRefusals(t *testing.T) {
	server := redisserver.Cluster(t)
	one, other := newNode(t, server), newNode(t, server)
	one.Add(record("ann", "turn"))
	for i := range 2 * maxEntries {
		one.Add(refusal("ann", fmt.Sprint(i)))
	}
	one.Add(Record{User: "ann", RequestID: "not listed", Status: 404, Unlisted: true})
	must.OK(t, one.Store(t.Context()))
	a, err := other.Account(t.Context(), "ann", 0)
	if err != nil || a.Requests != 2*maxEntries+2 || a.Errors != 2*maxEntries+1 || len(a.ByModel) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	raw, err := other.Raw(t.Context(), "ann")
	turns := 0
	for _, e := range raw.Data {
		if e.RequestID == "turn" {
			turns++
		}
	}
	if err != nil || turns != 1 || len(raw.Data) != maxEntries+1 {
		t.Errorf("%d entries, %d turns, %v", len(raw.Data), turns, err)
	}
}

// TestSharedNull adds a turn to an account that somebody has changed in Redis.
func TestSharedNull(t *testing.T) {
	const stored = `{"batches":null,"models":{"gpt-5":null},"users":null,"hours":null,"tool_buffer_metrics":{"aborted_by_reason":null}}`
	node := NewShared(func(context.Context, *redis.Script, string, ...any) (any, error) {
		return []any{stored, time.Now().Unix()}, nil
	})
	node.Add(record("ann", "1"))
	if a, err := node.Account(t.Context(), Everybody, 0); err != nil || node.Unstored() != 0 || len(a.ByModel) != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestSharedClocks: a node whose clock is ahead does not displace what the others have counted, and what it
// counts itself is in the hour and the day of Redis's clock.
func TestSharedClocks(t *testing.T) {
	server := redisserver.Start(t)
	node, ahead := newNode(t, server), newNode(t, server)
	for _, step := range []struct {
		node *Shared
		skew time.Duration
	}{{node, -3 * time.Hour}, {ahead, 100 * 24 * time.Hour}, {node, 0}} {
		r := record("ann", "id")
		r.Time = r.Time.Add(step.skew)
		step.node.Add(r)
		must.OK(t, step.node.Store(t.Context()))
	}
	for _, user := range []string{"ann", Everybody} {
		a, err := node.Account(t.Context(), user, 0)
		must.OK(t, err)
		inHours, inDays, last := int64(0), int64(0), a.ByHour[len(a.ByHour)-1]
		for _, h := range a.ByHour {
			inHours += h.Requests
		}
		for _, d := range a.ByDay {
			inDays += d.Requests
		}
		if a.Requests != 3 || inHours != 3 || inDays != 3 || len(a.ByHour) == 1 || last.Start > time.Now().Unix() {
			t.Errorf("%q: %d requests, by hour %+v, by day %+v", user, a.Requests, a.ByHour, a.ByDay)
		}
	}
}

// TestSharedCoarseClock stores two batches in the same instant, the time of the bubble: both count.
func TestSharedCoarseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := make(map[any]string)
		node := NewShared(func(_ context.Context, _ *redis.Script, _ string, args ...any) (any, error) {
			found := accounts[args[0]]
			if len(args) > 1 && args[1] == found {
				accounts[args[0]] = string(args[2].([]byte))
			}
			return []any{found, time.Now().Unix()}, nil
		})
		for range 2 {
			node.Add(record("ann", "id"))
			must.OK(t, node.Store(t.Context()))
		}
		if a, err := node.Account(t.Context(), "ann", 0); err != nil || a.Requests != 2 {
			t.Errorf("%d requests, %v", a.Requests, err)
		}
	})
}

// TestSharedInterval: turns are stored within five seconds, also those during an outage once a turn ends
// after it. Each store makes two calls of a script for each account, here those of ann and all.
func TestSharedInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, down := 0, errors.New("down")
		node := NewShared(func(context.Context, *redis.Script, string, ...any) (any, error) {
			calls++
			return "", down
		})
		for i, want := range []struct {
			err             error
			calls, unstored int
		}{{down, 1, 2}, {down, 1, 4}, {nil, 8, 0}, {nil, 4, 0}} {
			calls, down = 0, want.err
			node.Add(record("ann", "1"))
			node.Add(record("ann", "2"))
			time.Sleep(storeInterval)
			synctest.Wait()
			if n := node.Unstored(); n != want.unstored || calls != want.calls {
				t.Errorf("%d: %d turns are not stored after %d calls", i, n, calls)
			}
		}
	})
}

package responsestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/internal/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// id returns the id of a response made n milliseconds after the first.
func id(n int) string { return storetest.ID(n) }

// conversationID is the id of a conversation.
func conversationID(n int) string { return storetest.ConversationID(n) }

func entry(user, previous, text string) *stores.Entry { return storetest.Entry(user, previous, text) }

func begun(user string) *stores.Entry { return storetest.Begun(user) }

// TestEngines runs the suite for engines.
func TestEngines(t *testing.T) { engines(t, storetest.Run) }

// engineRoom is how many bytes a user may have in the engines under test.
const engineRoom = 4 << 20

// engines tests each engine.
func engines(t *testing.T, test func(t *testing.T, open func(t *testing.T) storetest.Engine)) {
	t.Run("memory", func(t *testing.T) {
		test(t, func(*testing.T) storetest.Engine {
			m, now := NewMemory(engineRoom, time.Hour), time.Now()
			m.now = func() time.Time { return now }
			return storetest.Engine{Store: m, Age: time.Hour, Room: engineRoom, Later: func(d time.Duration) { now = now.Add(d) }}
		})
	})
	t.Run("disk", func(t *testing.T) { test(t, diskEngine) })
	for _, name := range []string{"redis", "cluster"} {
		t.Run(name, func(t *testing.T) {
			var server *redisserver.Server
			if name == "cluster" {
				server = redisserver.Cluster(t)
			} else {
				server = redisserver.Start(t)
			}
			test(t, func(t *testing.T) storetest.Engine {
				server.Do("FLUSHALL")
				open := func(t *testing.T) *Redis {
					r := openRedis(t, server.Addr, name == "cluster")
					r.maxBytes = engineRoom
					return r
				}
				r := open(t)
				return storetest.Engine{
					Store: r, Age: time.Hour, Room: engineRoom, Shared: true, Later: func(d time.Duration) { age(t, r, d) },
					Other: func(t *testing.T) stores.Store { return open(t) },
				}
			})
		})
	}
}

func diskEngine(t *testing.T) storetest.Engine {
	dir, now := t.TempDir(), time.Now()
	open := func(t *testing.T) *Disk {
		d := NewDisk(dir)
		d.now = func() time.Time { return now }
		d.Limit(engineRoom, time.Hour)
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	d := open(t)
	return storetest.Engine{Store: d, Age: time.Hour, Room: engineRoom, Later: func(d time.Duration) { now = now.Add(d) }, Other: func(t *testing.T) stores.Store {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(t)
		return d
	}}
}

// openRedis returns an engine that is closed with the test.
func openRedis(t *testing.T, addr string, cluster bool) *Redis {
	r := NewRedis(RedisOptions{
		UniversalOptions: redis.UniversalOptions{Addrs: []string{addr}, IsClusterMode: cluster}, Prefix: "codex", MaxAge: time.Hour, MaxBytes: 1 << 30,
	}, slog.New(slog.DiscardHandler))
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// age shortens the lives of all keys.
func age(t *testing.T, r *Redis, by time.Duration) {
	t.Helper()
	keys := r.client.Keys(t.Context(), "*").Val()
	for _, key := range keys {
		left := r.client.PTTL(t.Context(), key).Val()
		if left < 0 {
			t.Errorf("%s has no end", key)
		}
		r.client.PExpire(t.Context(), key, left-by)
	}
}

func TestChain(t *testing.T) {
	engines(t, func(t *testing.T, open func(t *testing.T) storetest.Engine) {
		s := open(t).Store
		ctx := t.Context()
		for i, previous := range []string{"", id(0), id(1)} {
			if err := s.Put(ctx, id(i), entry("ann", previous, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		items, err := NewReader(s, "ann", 1<<20, always).Chain(ctx, id(2))
		want := `["in 0" "<0>" "own" "in 1" "<1>" "own" "in 2" "<2>" "own"]`
		if got := fmt.Sprintf("%s", items); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
		if _, err := NewReader(s, "bob", 1<<20, always).Chain(ctx, id(2)); !errors.Is(err, stores.ErrNotFound) {
			t.Error("another user's chain:", err)
		}
		if _, err := NewReader(s, "ann", 47, always).Chain(ctx, id(2)); !errors.Is(err, stores.ErrTooLong) {
			t.Error("a chain that is too large:", err)
		}
		if _, err := NewReader(s, "ann", 1<<20, func(int64) bool { return false }).Chain(ctx, id(2)); !errors.Is(err, ErrNoMemory) {
			t.Error("a chain without memory:", err)
		}
		if err := s.Delete(ctx, "ann", id(0)); err != nil {
			t.Fatal(err)
		}
		_, err = NewReader(s, "ann", 1<<20, always).Chain(ctx, id(2))
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != id(0) {
			t.Error("a chain without its beginning:", err)
		}
		if err := s.Put(ctx, id(0), entry("ann", id(2), "round")); err != nil {
			t.Fatal(err)
		}
		if _, err := NewReader(s, "ann", 1<<30, always).Chain(ctx, id(2)); !errors.Is(err, stores.ErrTooLong) {
			t.Error("a chain in a circle:", err)
		}
		in := entry("ann", "", "in")
		in.Conversation = conversationID(0)
		if err := s.Put(ctx, id(9), in); err != nil {
			t.Fatal(err)
		}
		if _, err := NewReader(s, "ann", 1<<30, always).Chain(ctx, id(9)); !errors.Is(err, ErrInConversation) {
			t.Error("a response of a conversation:", err)
		}
	})
}

// TestLongChain checks that a chain of a thousand links is read, in Redis in one round trip.
func TestLongChain(t *testing.T) {
	engines(t, func(t *testing.T, open func(t *testing.T) storetest.Engine) {
		s := open(t).Store
		previous := ""
		for i := range 1000 {
			if _, slow := s.(*Disk); slow && i == 100 {
				break // each is synced
			}
			if err := s.Put(t.Context(), id(i), entry("u", previous, "x")); err != nil {
				t.Fatal(err)
			}
			previous = id(i)
		}
		r, isRedis := s.(*Redis)
		calls := new(countingHook)
		if isRedis {
			r.client.AddHook(calls)
		}
		reader := NewReader(s, "u", 1<<20, always)
		if _, err := reader.Chain(t.Context(), previous); err != nil { // the script is known then
			t.Fatal(err)
		}
		calls.n.Store(0)
		begun := time.Now()
		items, err := NewReader(s, "u", 1<<20, always).Chain(t.Context(), previous)
		t.Log(len(items), "items after", time.Since(begun))
		if err != nil || len(items)%300 != 0 {
			t.Errorf("%d items, %v", len(items), err)
		}
		if isRedis && calls.n.Load() > 2 { // one more to reserve memory
			t.Errorf("%d calls", calls.n.Load())
		}
	})
}

// countingHook counts scripts. The store meanwhile checks the server without one.
type countingHook struct{ n atomic.Int64 }

func (*countingHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}
func (*countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func putAll(t *testing.T, s stores.Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Put(t.Context(), id(i), entry("u", "", "x")); err != nil {
			t.Fatal(err)
		}
	}
}

package store

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEngines runs the suite for engines.
func TestEngines(t *testing.T) { engines(t, runContract) }

// engineRoom is how many bytes a user may have in the engines under test.
const engineRoom = 4 << 20

// engines tests each engine.
func engines(t *testing.T, test func(t *testing.T, open func(t *testing.T) tested)) {
	t.Run("memory", func(t *testing.T) {
		test(t, func(*testing.T) tested {
			m, now := NewMemory(engineRoom, time.Hour), time.Now()
			m.now = func() time.Time { return now }
			return tested{Engine: m, age: time.Hour, room: engineRoom, later: func(d time.Duration) { now = now.Add(d) }}
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
			test(t, func(t *testing.T) tested {
				server.Do("FLUSHALL")
				open := func(t *testing.T) *Redis {
					r := openRedis(t, server.Addr, name == "cluster")
					r.maxBytes = engineRoom
					return r
				}
				r := open(t)
				return tested{
					Engine: r, age: time.Hour, room: engineRoom, shared: true, later: func(d time.Duration) { age(t, r, d) },
					other: func(t *testing.T) Engine { return open(t) },
				}
			})
		})
	}
}

// openDisk returns an engine that is closed with the test, and has much room.
func openDisk(t *testing.T, dir string) *Disk {
	d := NewDisk(dir)
	d.Limit(1<<30, time.Hour)
	must.OK(t, d.Start())
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func diskEngine(t *testing.T) tested {
	dir, now := t.TempDir(), time.Now()
	open := func(t *testing.T) *Disk {
		d := openDisk(t, dir)
		d.now = func() time.Time { return now }
		d.Limit(engineRoom, time.Hour)
		return d
	}
	d := open(t)
	return tested{Engine: d, age: time.Hour, room: engineRoom, later: func(d time.Duration) { now = now.Add(d) }, other: func(t *testing.T) Engine {
		must.OK(t, d.Close())
		d = open(t)
		return d
	}}
}

// openRedis returns an engine that is closed with the test.
func openRedis(t *testing.T, addr string, cluster bool) *Redis {
	return openWith(t, redis.UniversalOptions{Addrs: []string{addr}, IsClusterMode: cluster})
}

func openWith(t *testing.T, o redis.UniversalOptions) *Redis {
	r := NewRedis(RedisOptions{UniversalOptions: o, Prefix: "codex", MaxAge: time.Hour, MaxBytes: 1 << 30}, slog.New(slog.DiscardHandler))
	must.OK(t, r.Start())
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

// TestManyItems checks that an entry in Redis has at most 20,000 items, without those that are deleted.
func TestManyItems(t *testing.T) {
	r := openRedis(t, redisserver.Start(t).Addr, false)
	p := &Put{Items: make([][]byte, 20_000)}
	for i := range p.Items {
		p.Items[i] = []byte("x")
	}
	one := func() error {
		_, err := r.Append(t.Context(), "u", id(1), &Append{Part: Items, Records: p.Items[:1], Owner: rand.Text()})
		return err
	}
	must.OK(t, r.Put(t.Context(), "u", id(1), p))
	if err := one(); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	must.OK(t, r.Delete(t.Context(), "u", id(1), 7))
	must.OK(t, one())
	if err := one(); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	must.OK(t, r.Put(t.Context(), "u", id(2), entry("", "x")))
	must.OK(t, r.Delete(t.Context(), "u", id(2), 0))
	age(t, r, 0) // all keys still expire
}

// TestManyLinks checks that a thousand linked entries are read, in Redis in one round trip.
func TestManyLinks(t *testing.T) {
	engines(t, func(t *testing.T, open func(t *testing.T) tested) {
		e, last, links := open(t).Engine, "", 1000
		if _, slow := e.(*Disk); slow {
			links = 100 // each is synced
		}
		for i := range links {
			must.OK(t, e.Put(t.Context(), "u", id(i), entry(last, "x")))
			last = id(i)
		}
		var calls atomic.Int64
		if r, isRedis := e.(*Redis); isRedis {
			r.client.AddHook(scriptHook(func(*redis.Cmd) { calls.Add(1) }))
		}
		pages, err := e.Read(t.Context(), "u", last, Query{Part: Items, Limit: FreeTransfer, Links: links})
		if err != nil || len(pages) != links || calls.Load() > 2 { // twice if the script was not known
			t.Errorf("%d pages in %d calls, %v", len(pages), calls.Load(), err)
		}
	})
}

// scriptHook is called after each script. The store meanwhile checks the server without one.
type scriptHook func(*redis.Cmd)

func (scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, ok := cmd.(*redis.Cmd); ok && strings.HasPrefix(cmd.Name(), "eval") {
			h(script)
		}
		return err
	}
}
func (scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// putAll stores entries of the user "u".
func putAll(t *testing.T, e Engine, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must.OK(t, e.Put(t.Context(), "u", id(i), entry("", "x")))
	}
}

// get reads the value of an entry.
func get(ctx context.Context, e Engine, user, id string) (string, error) {
	pages, err := e.Read(ctx, user, id, Query{Part: Value, Limit: MaxEntry})
	if err != nil || len(pages[0].Records) == 0 {
		return "", err
	}
	return string(pages[0].Records[0]), nil
}

package responsestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
	"github.com/caddy-codex/caddy-codex/stores"
)

// TestManyItems checks that a conversation cannot have so many items that whoever reads it holds up
// Redis for all others.
func TestManyItems(t *testing.T) {
	r, at := openRedis(t, redisserver.Start(t).Addr, false), conversationID(0)
	many := &stores.Entry{User: "u", Response: json.RawMessage("{}")}
	for range 20_001 {
		many.Input = append(many.Input, json.RawMessage("1"))
	}
	if err := r.Put(t.Context(), at, many); !errors.Is(err, stores.ErrTooLarge) {
		t.Error(err)
	}
	many.Input = many.Input[1:]
	if err := r.Put(t.Context(), at, many); err != nil {
		t.Fatal(err)
	}
	if err := r.Append(t.Context(), "u", at, many.Input[:1]); !errors.Is(err, stores.ErrTooLarge) {
		t.Error(err)
	}
	e, err := r.Get(t.Context(), "u", at)
	if err != nil || len(e.Input) != 20_000 {
		t.Fatal(len(e.Input), err)
	}
	e.Release()
}

// TestRedisShares lets a user fill what one may have in Redis, from two nodes at once: the oldest of
// its own entries go, and those of others stay.
func TestRedisShares(t *testing.T) {
	const most = 1 << 20
	server := redisserver.Start(t)
	open := func() *Redis {
		r := NewRedis(RedisOptions{
			UniversalOptions: redis.UniversalOptions{Addrs: []string{server.Addr}}, Prefix: "codex", MaxAge: time.Hour, MaxBytes: most,
		}, slog.New(slog.DiscardHandler))
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	nodes, ctx := []*Redis{open(), open()}, t.Context()
	if err := nodes[0].Put(ctx, id(1), entry("bob", "", "bob's")); err != nil {
		t.Fatal(err)
	}
	large := func(n int) *stores.Entry {
		e := entry("ann", "", "ann's")
		e.Input = []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", n) + `"`)}
		return e
	}
	if err := nodes[0].Put(ctx, id(2), large(most)); !errors.Is(err, stores.ErrTooLarge) {
		t.Errorf("one that is larger than all may be: %v", err)
	}
	conversation := entry("ann", "", "items")
	if err := nodes[0].Put(ctx, conversationID(3), conversation); err != nil {
		t.Fatal(err)
	}
	// total checks that what is counted is what there is.
	total := func() (sum int64) {
		t.Helper()
		client, base := nodes[0].client, "codex:{"+tagOf("ann")+"}:"
		for _, id := range client.ZRange(ctx, base+"ends", 0, -1).Val() {
			bytes, err := client.HGet(ctx, base+"r:"+id, "bytes").Int64()
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
			sum += bytes
		}
		counted, err := client.HGet(ctx, base+"sizes", "total").Int64()
		if err != nil || counted != sum || counted > most {
			t.Errorf("%d bytes are counted, there are %d; %v", counted, sum, err)
		}
		return sum
	}
	var all sync.WaitGroup
	for node, r := range nodes {
		all.Go(func() {
			for i := range 30 {
				n := 100 + 2*i + node
				if err := errors.Join(r.Put(ctx, id(n), large(60_000)), r.Put(ctx, id(n), large(70_000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	before := total()
	found := 0
	for n := 100; n < 160; n++ {
		if e, err := nodes[0].Get(ctx, "ann", id(n)); err == nil {
			e.Release()
			found++
		} else if n > 155 {
			t.Errorf("the last ones are there, but %d: %v", n, err)
		}
	}
	if found < 12 || found > 14 {
		t.Errorf("%d entries are there", found)
	}
	if err := nodes[0].Put(ctx, conversationID(4), conversation); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		item := json.RawMessage(fmt.Sprintf(`"%d %s"`, i, strings.Repeat("y", 30_000)))
		if err := nodes[i%2].Append(ctx, "ann", conversationID(4), []json.RawMessage{item}); err != nil {
			t.Fatal(err)
		}
		if i < 5 {
			if err := nodes[0].RemoveItem(ctx, "ann", conversationID(4), item); err != nil {
				t.Fatal(err)
			}
		}
	}
	total()
	if err := nodes[0].Delete(ctx, "ann", id(158)); err != nil {
		t.Fatal(err)
	}
	if after := total(); after > before {
		t.Errorf("%d bytes, before %d", after, before)
	}
	if e, err := nodes[1].Get(ctx, "bob", id(1)); err != nil {
		t.Error("another user's entry is gone")
	} else {
		e.Release()
	}
	nodes[0].client.Del(ctx, "codex:{"+tagOf("ann")+"}:r:"+id(159)) // as if it had ended
	nodes[0].client.ZAdd(ctx, "codex:{"+tagOf("ann")+"}:ends", redis.Z{Score: 1, Member: id(159)})
	if err := nodes[0].Put(ctx, id(200), large(10)); err != nil {
		t.Fatal(err)
	}
	total()
}

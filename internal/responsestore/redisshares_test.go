package responsestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
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

// TestPages reads a conversation of many megabytes while another node appends to it and removes from
// it: each time all is there that was, and no use of Redis reads more than some of it.
func TestPages(t *testing.T) {
	server := redisserver.Start(t)
	r, other, at, ctx := openRedis(t, server.Addr, false), openRedis(t, server.Addr, false), conversationID(0), t.Context()
	large := &stores.Entry{User: "u", Response: json.RawMessage("{}")}
	item := func(n int) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`"%d %s"`, n, strings.Repeat("x", 50_000)))
	}
	const items = 200
	for n := range items {
		large.Input = append(large.Input, item(n))
	}
	if err := r.Put(ctx, at, large); err != nil {
		t.Fatal(err)
	}
	check := func(removed, appended int) {
		t.Helper()
		e, err := r.Get(ctx, "u", at)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Release()
		if n := len(e.Input); n < items-removed || n > items-removed+appended || string(e.Input[0]) != string(item(removed)) || string(e.Input[items-1-removed]) != string(item(items-1)) {
			t.Errorf("%d items, the first %.20s", n, e.Input[0])
		}
	}
	pages := new(countingHook)
	r.client.AddHook(pages)
	check(0, 0)
	if pages.n.Load() < 6 {
		t.Errorf("%d calls", pages.n.Load())
	}
	if found, err := NewReader(r, "u", 64<<20, always).Chain(ctx, at); err != nil || len(found) != items {
		t.Fatal(len(found), err)
	}
	if _, err := NewReader(r, "u", 1<<20, always).Chain(ctx, at); !errors.Is(err, stores.ErrTooLong) {
		t.Error(err)
	}
	var changed sync.Once
	r.client.AddHook(beforePages(func() {
		changed.Do(func() {
			if err := errors.Join(other.RemoveItem(ctx, "u", at, item(0)), other.Append(ctx, "u", at, []json.RawMessage{item(items)})); err != nil {
				t.Error(err)
			}
		})
	}))
	check(1, 1)
	r.client.AddHook(beforePages(func() {
		if err := other.Append(ctx, "u", at, []json.RawMessage{json.RawMessage("1")}); err != nil {
			t.Error(err)
		}
	}))
	check(1, 1)
	r.client.AddHook(beforePages(func() { _ = other.Delete(ctx, "u", at) }))
	if _, err := r.Get(ctx, "u", at); !errors.Is(err, stores.ErrNotFound) {
		t.Error("deleted while it was read:", err)
	}
}

// beforePages is called before each page of a conversation is read.
type beforePages func()

func (beforePages) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b beforePages) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == pageScript.Hash() {
			b()
		}
		return next(ctx, cmd)
	}
}
func (beforePages) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestEventsShare lets the events of a background response fill what a user may have: the oldest
// entries go, then the events that do not fit. Those that have ended do not count.
func TestEventsShare(t *testing.T) {
	const most = 1 << 20
	server, ctx := redisserver.Start(t), t.Context()
	r := openRedis(t, server.Addr, false)
	r.maxBytes = most
	base := "codex:{" + tagOf("u") + "}:"
	total := func() int {
		t.Helper()
		sum := 0
		for _, id := range r.client.ZRange(ctx, base+"ends", 0, -1).Val() {
			for _, part := range r.client.HMGet(ctx, base+"r:"+id, "bytes", "streamed").Val() {
				n, _ := strconv.Atoi(asText(part))
				sum += n
			}
		}
		if counted, err := r.client.HGet(ctx, base+"sizes", "total").Int(); err != nil || counted != sum || sum > most {
			t.Errorf("%d bytes are counted, there are %d; %v", counted, sum, err)
		}
		return sum
	}
	there := func(n int) bool {
		e, err := r.Get(ctx, "u", id(n))
		if err == nil {
			e.Release()
		}
		return err == nil
	}
	old := entry("u", "", "old")
	old.Input = []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", 300_000) + `"`)}
	if err := errors.Join(r.Put(ctx, id(1), old), r.Put(ctx, id(2), old), r.Begin(ctx, id(3), begun("u"))); err != nil {
		t.Fatal(err)
	}
	event := stores.Event{Name: "e", Data: bytes.Repeat([]byte("y"), 100_000)}
	number := int64(0)
	add := func(n int) {
		t.Helper()
		if _, err := r.Continue(ctx, "u", id(3), stores.Events{First: number, Events: slices.Repeat([]stores.Event{event}, n)}); err != nil {
			t.Fatal(err)
		}
		number += int64(n)
	}
	add(3)
	if before := total(); before < 900_000 || !there(1) {
		t.Error(before)
	}
	add(3)
	if total(); there(1) || !there(2) || !there(3) {
		t.Error("another entry than the oldest has gone")
	}
	add(9)
	total()
	if events, err := r.Events(ctx, "u", id(3), 0, 1<<20); err != nil || len(events.Events) != 10 {
		t.Errorf("%d events, %v", len(events.Events), err)
	}
	if _, err := r.Events(ctx, "u", id(3), 10, 1<<20); !errors.Is(err, stores.ErrDropped) {
		t.Error("what does not fit:", err)
	}
	if err := r.Put(ctx, id(3), entry("u", "", "end")); err != nil {
		t.Fatal(err)
	}
	if n := total(); n < 1_000_000 {
		t.Errorf("%d bytes when it has ended", n)
	}
	r.client.ZAdd(ctx, base+"streams", redis.Z{Score: 1, Member: id(3)}) // as if they had ended
	if err := r.Put(ctx, id(4), entry("u", "", "next")); err != nil {
		t.Fatal(err)
	}
	if n := total(); n > 10_000 || !there(3) {
		t.Errorf("%d bytes after the end of the events", n)
	}
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

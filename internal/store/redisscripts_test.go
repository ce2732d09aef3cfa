package store

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// checkTotal checks that the bytes that are counted for a user in Redis are those that there are, and
// returns them.
func checkTotal(t *testing.T, r *Redis, user string) (sum int) {
	t.Helper()
	ctx, base := t.Context(), r.prefix+":{"+tagOf(user)+"}:"
	for _, id := range r.client.ZRange(ctx, base+"ends", 0, -1).Val() {
		n, err := strconv.Atoi(r.client.HGet(ctx, base+"v:"+id, "bytes").Val())
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
		for _, event := range r.client.HVals(ctx, base+"e:"+id).Val() {
			n += len(event) + RecordOverhead
		}
		sum += n
	}
	counted, err := r.client.HGet(ctx, base+"sizes", "total").Int()
	if err != nil || counted != sum || int64(counted) > r.maxBytes {
		t.Errorf("%d bytes are counted, there are %d; %v", counted, sum, err)
	}
	return sum
}

// TestRedisShares lets a user fill what one may have in Redis, from two nodes at once: the oldest of
// its own entries go, and those of others stay.
func TestRedisShares(t *testing.T) {
	server, ctx := redisserver.Start(t), t.Context()
	nodes := []*Redis{openRedis(t, server.Addr, false), openRedis(t, server.Addr, false)}
	for _, r := range nodes {
		r.maxBytes = 1 << 20
	}
	large := func(size int) *Put { return &Put{Items: [][]byte{bytes.Repeat([]byte("x"), size)}} }
	must.OK(t, errors.Join(nodes[0].Put(ctx, "bob", id(1), large(10)), nodes[0].Put(ctx, "ann", conversationID(3), large(10))))
	check(t, "one that is larger than all may be", nodes[0].Put(ctx, "ann", id(2), large(1<<20)), ErrTooLarge)
	var all sync.WaitGroup
	for node, r := range nodes {
		all.Go(func() {
			for i := range 30 {
				n := 100 + 2*i + node
				check(t, "put", errors.Join(r.Put(ctx, "ann", id(n), large(60_000)), r.Put(ctx, "ann", id(n), large(70_000))), nil)
			}
		})
	}
	all.Wait()
	before, found := checkTotal(t, nodes[0], "ann"), 0
	for n := 100; n < 160; n++ {
		if exists(t, nodes[0], "ann", id(n)) {
			found++
		} else if n > 155 {
			t.Errorf("the last ones are there, but %d", n)
		}
	}
	if found < 12 || found > 14 || exists(t, nodes[0], "ann", conversationID(3)) {
		t.Errorf("%d entries are there", found)
	}
	check(t, "put", nodes[0].Put(ctx, "ann", conversationID(4), large(10)), nil)
	for i := range 20 {
		a := &Append{Part: Items, Owner: "token-" + strconv.Itoa(100+i), Records: large(30_000).Items}
		_, err := nodes[i%2].Append(ctx, "ann", conversationID(4), a)
		if check(t, "append", err, nil); i < 5 {
			check(t, "delete an item", nodes[0].Delete(ctx, "ann", conversationID(4), int64(i)), nil)
		}
	}
	checkTotal(t, nodes[0], "ann")
	check(t, "delete", nodes[0].Delete(ctx, "ann", id(158), Whole), nil)
	if after := checkTotal(t, nodes[0], "ann"); after > before {
		t.Errorf("%d bytes, before %d", after, before)
	}
	if !exists(t, nodes[1], "bob", id(1)) {
		t.Error("another user's entry is gone")
	}
	base := "codex:{" + tagOf("ann") + "}:"
	nodes[0].client.Del(ctx, base+"v:"+id(159)) // as if it had ended
	nodes[0].client.ZAdd(ctx, base+"ends", redis.Z{Score: 1, Member: id(159)})
	check(t, "put", nodes[0].Put(ctx, "ann", id(200), large(10)), nil)
	checkTotal(t, nodes[0], "ann")
}

// TestEventsShare lets the events of an entry fill what a user may have: the oldest entries go, then
// the events that do not fit. Those that have ended do not count.
func TestEventsShare(t *testing.T) {
	r, ctx := openRedis(t, redisserver.Start(t).Addr, false), t.Context()
	r.maxBytes = 1 << 20
	old := &Put{Value: bytes.Repeat([]byte("x"), 300_000)}
	check(t, "put", errors.Join(r.Put(ctx, "u", id(1), old), r.Put(ctx, "u", id(2), old), r.Put(ctx, "u", id(3), begun("o"))), nil)
	number, event := int64(0), strings.Repeat("y", 100_000)
	add := func(n int) {
		t.Helper()
		events := make([]string, n)
		for i := range events {
			events[i] = event
		}
		_, err := r.Append(ctx, "u", id(3), added("o", number, events...))
		check(t, "append", err, nil)
		number += int64(n)
	}
	if add(3); checkTotal(t, r, "u") < 900_000 || !exists(t, r, "u", id(1)) {
		t.Error("the first events have not been stored beside the others")
	}
	if add(3); exists(t, r, "u", id(1)) || !exists(t, r, "u", id(2)) || !exists(t, r, "u", id(3)) {
		t.Error("another entry than the oldest has gone")
	}
	add(9)
	checkTotal(t, r, "u")
	if page, _ := read(t, r, id(3), Events, 0); len(page.Records) != 10 || page.Next != 15 {
		t.Errorf("%d events of %d", len(page.Records), page.Next)
	}
	end := entry("", "end")
	end.Owner = "o"
	check(t, "put", r.Put(ctx, "u", id(3), end), nil)
	if n := checkTotal(t, r, "u"); n < 1_000_000 {
		t.Errorf("%d bytes when it has ended", n)
	}
	base := r.prefix + ":{" + tagOf("u") + "}:"
	r.client.Del(ctx, base+"e:"+id(3)) // as if they had ended
	r.client.ZAdd(ctx, base+"streams", redis.Z{Score: 1, Member: id(3)})
	check(t, "put", r.Put(ctx, "u", id(4), entry("", "next")), nil)
	if n := checkTotal(t, r, "u"); n > 10_000 || !exists(t, r, "u", id(3)) {
		t.Errorf("%d bytes after the end of the events", n)
	}
}

func answerSize(answer any) (size int64) {
	switch v := answer.(type) {
	case string:
		return int64(len(v))
	case []any:
		for _, element := range v {
			size += answerSize(element)
		}
	}
	return size
}

// TestSmallAnswers checks that an answer of Redis has what fits, and nothing that was not asked for,
// since all its clients wait meanwhile.
func TestSmallAnswers(t *testing.T) {
	r, ctx := openRedis(t, redisserver.Start(t).Addr, false), t.Context()
	large := bytes.Repeat([]byte("x"), 1<<20)
	check(t, "put", r.Put(ctx, "u", id(1), &Put{Value: []byte("small"), Items: [][]byte{large, large, []byte("x")}}), nil)
	var largest int64
	r.client.AddHook(scriptHook(func(script *redis.Cmd) { largest = max(largest, answerSize(script.Val())) }))
	for _, c := range []struct {
		part        Part
		text        string
		from, limit int64
		most        int64
	}{
		{Value, "", 0, math.MaxInt32, 300}, {Items, "", 0, 1 << 20, 300}, {Items, "", 1, 2 << 20, 1<<20 + 300}, {Items, "", 2, math.MaxInt32, 300}, {Events, "", 0, math.MaxInt32, 300},
		{Items, "y", 0, math.MaxInt32, 300},
	} {
		largest = 0
		if _, err := r.Read(ctx, "u", id(1), Query{Part: c.part, From: c.from, Limit: c.limit, Text: c.text}); err != nil || largest > c.most || largest == 0 {
			t.Errorf("%+v: %d bytes, %v", c, largest, err)
		}
	}
}

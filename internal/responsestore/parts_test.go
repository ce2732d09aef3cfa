package responsestore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/caddy-codex/caddy-codex/internal/stores"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

// answerSizes measures the answers of Redis, in bytes.
type answerSizes struct{ all, largest atomic.Int64 }

func (*answerSizes) DialHook(next redis.DialHook) redis.DialHook { return next }
func (a *answerSizes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if answer, ok := cmd.(*redis.Cmd); ok {
			size := sizeOf(answer.Val())
			a.all.Add(size)
			a.largest.Store(max(a.largest.Load(), size))
		}
		return err
	}
}
func (*answerSizes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func sizeOf(answer any) (size int64) {
	switch v := answer.(type) {
	case string:
		return int64(len(v))
	case []any:
		for _, element := range v {
			size += sizeOf(element)
		}
	}
	return size
}

// TestLargeRead reads large entries, as wholes and in parts. Each answer of Redis is small, since all
// its clients wait meanwhile, and has only what was asked for.
func TestLargeRead(t *testing.T) {
	r, ctx := openRedis(t, redisserver.Start(t).Addr, false), t.Context()
	sizes := new(answerSizes)
	r.client.AddHook(sizes)
	large := func(previous string) *stores.Entry {
		e := entry("u", previous, "response")
		e.Input = nil
		for i := range 100 {
			e.Input = append(e.Input, json.RawMessage(fmt.Sprintf(`{"id":"item-%d","x":"%s"}`, i, strings.Repeat("x", 250_000))))
		}
		for i := range 10_000 { // which share pieces
			e.Input = append(e.Input, json.RawMessage(fmt.Sprintf(`{"id":"small-%d"}`, i)))
		}
		return e
	}
	conversation := large("")
	conversation.Output = nil
	for id, e := range map[string]*stores.Entry{id(1): entry("u", "", "first"), id(2): large(id(1)), id(3): entry("u", id(2), "third"), conversationID(1): conversation} {
		if err := r.Put(ctx, id, e); err != nil {
			t.Fatal(err)
		}
	}
	checkItems := func(items []json.RawMessage, want *stores.Entry) error {
		n := 0
		for item := range want.Items() {
			if n >= len(items) || string(items[n]) != string(item) {
				return fmt.Errorf("item %d of %d is another one", n, len(items))
			}
			n++
		}
		if n != len(items) {
			return fmt.Errorf("%d items, not %d", len(items), n)
		}
		return nil
	}
	get := func(id string) func() error {
		return func() error {
			e, err := r.Get(ctx, "u", id)
			if err != nil {
				return err
			}
			defer e.Release()
			var items []json.RawMessage
			for item := range e.Items() {
				items = append(items, item)
			}
			return checkItems(items, map[bool]*stores.Entry{true: large(""), false: conversation}[id[0] == 'r'])
		}
	}
	part := func(id, text string, items int) func() error {
		return func() error {
			e, err := r.GetPart(ctx, "u", id, text)
			if err != nil {
				return err
			}
			defer e.Release()
			if len(e.Input) != items {
				return fmt.Errorf("%d items", len(e.Input))
			}
			return nil
		}
	}
	const step = 1<<18 + 251_000 // a page is full when it has 256 KiB
	for what, c := range map[string]struct {
		read    func() error
		largest int64
		all     int64
	}{
		"response":                {get(id(2)), step, 27 << 20},
		"conversation":            {get(conversationID(1)), step, 27 << 20},
		"response without items":  {part(id(2), "", 0), 1 << 10, 1 << 10},
		"conversation's object":   {part(conversationID(1), "", 0), 1 << 10, 1 << 10},
		"an item":                 {part(conversationID(1), `"item-99"`, 1), 260_000, 260_000},
		"an item that is missing": {part(conversationID(1), `"item-100"`, 0), 1 << 10, 2 << 10},
		"chain": {func() error {
			items, err := NewReader(r, "u", 64<<20, always).Chain(ctx, id(3))
			if err != nil || len(items) < 6 {
				return fmt.Errorf("%d items, %w", len(items), err)
			}
			return checkItems(items[3:len(items)-3], large("")) // the first and the third response have three items each
		}, step, 27 << 20},
	} {
		sizes.all.Store(0)
		sizes.largest.Store(0)
		if err := c.read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if largest, all := sizes.largest.Load(), sizes.all.Load(); largest > c.largest || all > c.all || all == 0 {
			t.Errorf("%s: answers of %d bytes, the largest has %d", what, all, largest)
		}
	}
}

package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

// countingEngine counts reads, and calls then at each.
type countingEngine struct {
	store.Engine
	reads int
	then  func(reads int)
}

func (c *countingEngine) Read(ctx context.Context, user, id string, q store.Query) ([]store.Page, error) {
	c.reads++
	if c.then != nil {
		c.then(c.reads)
	}
	return c.Engine.Read(ctx, user, id, q)
}

// always claims memory without a limit.
func always(int64) bool { return true }

// itemID returns the id of the only output item of the nth response that putWithItems stores.
func itemID(n int) string { return fmt.Sprintf("msg_%026d_1", n) }

// itemOf returns the output item of the nth response that putWithItems stores.
func itemOf(n int) string { return `{"id":"` + itemID(n) + `"}` }

func putWithItems(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must.OK(t, s.Put(t.Context(), id(i), &Entry{User: "u", Response: json.RawMessage(`{}`), Output: []json.RawMessage{json.RawMessage(itemOf(i))}}))
	}
}

// TestReader checks that an item may be named many times, which all count, and that
// the store is read once.
func TestReader(t *testing.T) {
	ctx := t.Context()
	engine := &countingEngine{Engine: store.NewMemory(1<<20, time.Hour)}
	s := storeIn(engine)
	putWithItems(t, s, 0, 2)
	named := make([]string, 100)
	for i := range named {
		named[i] = itemID(i % 2)
	}
	one := int64(len(itemOf(0)))
	items, err := NewReader(s, "u", 100*one, always).Items(ctx, named)
	if err != nil || len(items) != 2 || string(items[itemID(1)]) != itemOf(1) || engine.reads != 2 {
		t.Errorf("%s after %d reads, %v", items, engine.reads, err)
	}
	if _, err := NewReader(s, "u", 100*one-1, always).Items(ctx, named); !errors.Is(err, ErrTooLong) {
		t.Error("one byte more:", err)
	}
	for _, missingID := range []string{strings.TrimSuffix(itemID(1), "1") + "2", itemID(7), "msg_1"} {
		_, err := NewReader(s, "u", 1<<20, always).Items(ctx, []string{itemID(0), missingID})
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != missingID {
			t.Errorf("%v: %v", missingID, err)
		}
	}
	if _, err := NewReader(s, "v", 1<<20, always).Items(ctx, named); !errors.Is(err, store.ErrNotFound) {
		t.Error("another user's:", err)
	}
	claimed := int64(0)
	three := NewReader(s, "u", 1<<20, func(bytes int64) bool { claimed += bytes; return claimed <= 3*one })
	if _, err := three.Items(ctx, named[:3]); err != nil {
		t.Error("as much as there is memory:", err)
	}
	if _, err := three.Items(ctx, named[:1]); !errors.Is(err, ErrNoMemory) {
		t.Error("more than there is memory:", err)
	}
	// A chain and items share the bound.
	r := NewReader(s, "u", one, always)
	if _, err := r.Chain(ctx, id(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Items(ctx, named[:1]); !errors.Is(err, ErrTooLong) {
		t.Error("a chain and one more:", err)
	}
}

// TestReaderCancelled checks that nothing is read for a client that has left.
func TestReaderCancelled(t *testing.T) {
	engine := &countingEngine{Engine: store.NewMemory(1<<20, time.Hour)}
	s := storeIn(engine)
	must.OK(t, s.Put(t.Context(), id(0), entry("u", id(0), strings.Repeat("round", store.FreeTransfer/5))))
	putWithItems(t, s, 1, 100)
	var named []string
	for i := 1; i < 100; i++ {
		named = append(named, itemID(i))
	}
	for what, read := range map[string]func(context.Context, *Reader) error{
		"chain": func(ctx context.Context, r *Reader) error { _, err := r.Chain(ctx, id(0)); return err },
		"items": func(ctx context.Context, r *Reader) error { _, err := r.Items(ctx, named); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		engine.reads, engine.then = 0, func(reads int) {
			if reads == 3 {
				cancel()
			}
		}
		if err := read(ctx, NewReader(s, "u", 1<<30, always)); !errors.Is(err, context.Canceled) || engine.reads != 3 {
			t.Errorf("%s: %v after %d reads", what, err, engine.reads)
		}
		cancel()
	}
}

// TestReadOnce checks that a response that is read alone, since it is large, counts once.
func TestReadOnce(t *testing.T) {
	s := inMemory()
	must.OK(t, s.Put(t.Context(), id(0), entry("u", "", strings.Repeat("x", store.FreeTransfer)))) // twice in its items
	r := NewReader(s, "u", 1<<20, always)
	r.readLeft = 3 * store.FreeTransfer
	if _, err := r.Chain(t.Context(), id(0)); err != nil {
		t.Error(err)
	}
}

package objects

import (
	"context"
	"encoding/json"
	"errors"
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

// text returns the id of an item, which is the item itself.
func text(item json.RawMessage) string { return string(item) }

// TestReader checks that an item may be named many times, which all count, and that
// the store is read once.
func TestReader(t *testing.T) {
	ctx := t.Context()
	engine := &countingEngine{Engine: store.NewMemory(1<<20, time.Hour)}
	s := storeIn(engine)
	putAll(t, s, 0, 2)
	named := make([]Reference, 100)
	for i := range named {
		named[i] = Reference{id(i % 2), `"own"`}
	}
	size := int64(100 * len(`"own"`))
	items, err := NewReader(s, "u", size, always).Items(ctx, named, text)
	if err != nil || string(items[`"own"`]) != `"own"` || engine.reads != 2 {
		t.Errorf("%s after %d reads, %v", items, engine.reads, err)
	}
	if _, err := NewReader(s, "u", size-1, always).Items(ctx, named, text); !errors.Is(err, ErrTooLong) {
		t.Error("one byte more:", err)
	}
	for _, named := range []Reference{{id(1), "none"}, {id(7), `"own"`}} {
		_, err := NewReader(s, "u", 1<<20, always).Items(ctx, []Reference{{id(0), `"own"`}, named}, text)
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != named.Item {
			t.Errorf("%v: %v", named, err)
		}
	}
	if _, err := NewReader(s, "v", 1<<20, always).Items(ctx, named, text); !errors.Is(err, store.ErrNotFound) {
		t.Error("another user's:", err)
	}
	claimed := int64(0)
	three := NewReader(s, "u", 1<<20, func(bytes int64) bool { claimed += bytes; return claimed <= 15 })
	if _, err := three.Items(ctx, named[:3], text); err != nil {
		t.Error("as much as there is memory:", err)
	}
	if _, err := three.Items(ctx, named[:1], text); !errors.Is(err, ErrNoMemory) {
		t.Error("more than there is memory:", err)
	}
	// A chain and items share the bound.
	r := NewReader(s, "u", 16, always)
	if _, err := r.Chain(ctx, id(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Items(ctx, named[:1], text); !errors.Is(err, ErrTooLong) {
		t.Error("a chain and one more:", err)
	}
}

// TestReaderCancelled checks that nothing is read for a client that has left.
func TestReaderCancelled(t *testing.T) {
	engine := &countingEngine{Engine: store.NewMemory(1<<20, time.Hour)}
	s := storeIn(engine)
	must.OK(t, s.Put(t.Context(), id(0), entry("u", id(0), strings.Repeat("round", store.FreeTransfer/5))))
	putAll(t, s, 1, 100)
	var named []Reference
	for i := 1; i < 100; i++ {
		named = append(named, Reference{id(i), `"own"`})
	}
	for what, read := range map[string]func(context.Context, *Reader) error{
		"chain": func(ctx context.Context, r *Reader) error { _, err := r.Chain(ctx, id(0)); return err },
		"items": func(ctx context.Context, r *Reader) error { _, err := r.Items(ctx, named, text); return err },
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

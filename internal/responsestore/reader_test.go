package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// countingStore counts reads, and calls then at each.
type countingStore struct {
	stores.Store
	reads int
	then  func(reads int)
}

func (c *countingStore) Get(ctx context.Context, user, id string) (*stores.Entry, error) {
	c.reads++
	if c.then != nil {
		c.then(c.reads)
	}
	return c.Store.Get(ctx, user, id)
}

// always claims memory without a limit.
func always(int64) bool { return true }

// text returns the id of an item, which is the item itself.
func text(item json.RawMessage) string { return string(item) }

// TestReader checks that an item may be named many times, which all count, and that
// the store is read once.
func TestReader(t *testing.T) {
	ctx := t.Context()
	s := &countingStore{Store: NewMemory(1<<20, time.Hour)}
	putAll(t, s, 0, 2)
	named := make([]Reference, 100)
	for i := range named {
		named[i] = Reference{id(i % 2), `"own"`}
	}
	size := int64(100 * len(`"own"`))
	items, err := NewReader(s, "u", size, always).Items(ctx, named, text)
	if err != nil || string(items[`"own"`]) != `"own"` || s.reads != 2 {
		t.Errorf("%s after %d reads, %v", items, s.reads, err)
	}
	if _, err := NewReader(s, "u", size-1, always).Items(ctx, named, text); !errors.Is(err, stores.ErrTooLong) {
		t.Error("one byte more:", err)
	}
	for _, named := range []Reference{{id(1), "none"}, {id(7), `"own"`}} {
		_, err := NewReader(s, "u", 1<<20, always).Items(ctx, []Reference{{id(0), `"own"`}, named}, text)
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != named.Item {
			t.Errorf("%v: %v", named, err)
		}
	}
	if _, err := NewReader(s, "v", 1<<20, always).Items(ctx, named, text); !errors.Is(err, stores.ErrNotFound) {
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
	if _, err := r.Items(ctx, named[:1], text); !errors.Is(err, stores.ErrTooLong) {
		t.Error("a chain and one more:", err)
	}
}

// TestReaderCancelled checks that nothing is read for a client that has left.
func TestReaderCancelled(t *testing.T) {
	s := &countingStore{Store: NewMemory(1<<20, time.Hour)}
	if err := s.Put(t.Context(), id(0), entry("u", id(0), "round")); err != nil {
		t.Fatal(err)
	}
	putAll(t, s, 1, 100)
	var named []Reference
	for i := 1; i < 100; i++ {
		named = append(named, Reference{id(i), `"own"`})
	}
	for what, read := range map[string]func(context.Context, *Reader) error{
		"chain": func(ctx context.Context, r *Reader) error {
			_, err := r.Chain(ctx, id(0))
			return err
		},
		"items": func(ctx context.Context, r *Reader) error {
			_, err := r.Items(ctx, named, text)
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s.reads, s.then = 0, func(reads int) {
			if reads == 3 {
				cancel()
			}
		}
		if err := read(ctx, NewReader(s, "u", 1<<20, always)); !errors.Is(err, context.Canceled) || s.reads != 3 {
			t.Errorf("%s: %v after %d reads", what, err, s.reads)
		}
		cancel()
	}
}

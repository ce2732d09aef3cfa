package responses

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// countingStore counts how often it is read.
type countingStore struct {
	Store
	reads int
}

func (c *countingStore) Get(ctx context.Context, user, id string) (*Entry, error) {
	c.reads++
	return c.Store.Get(ctx, user, id)
}

// TestReader: items may be named many times. Each time counts, but the store is
// asked once.
func TestReader(t *testing.T) {
	ctx := t.Context()
	s := &countingStore{Store: NewMemory(1<<20, time.Hour)}
	putAll(t, s, 0, 2)
	isOwn := func(item json.RawMessage) bool { return string(item) == `"own"` }
	r := NewReader(s, "u", int64(100*len(`"own"`)))
	for i := range 100 {
		if _, err := r.Item(ctx, id(i%2), isOwn); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := r.Item(ctx, id(1), isOwn); !errors.Is(err, ErrTooLong) {
		t.Error("one more:", err)
	}
	if s.reads != 2 {
		t.Errorf("%d reads", s.reads)
	}
	r = NewReader(s, "u", 1<<20)
	if _, err := r.Item(ctx, id(1), func(json.RawMessage) bool { return false }); !errors.Is(err, ErrNotFound) {
		t.Error("no such item:", err)
	}
	if _, err := r.Item(ctx, id(7), isOwn); !errors.Is(err, ErrNotFound) {
		t.Error("no such response:", err)
	}
	if _, err := NewReader(s, "v", 1<<20).Item(ctx, id(1), isOwn); !errors.Is(err, ErrNotFound) {
		t.Error("another user's:", err)
	}
	// A chain and items share the bound.
	r = NewReader(s, "u", 16)
	if _, err := r.Chain(ctx, id(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Item(ctx, id(0), isOwn); !errors.Is(err, ErrTooLong) {
		t.Error("a chain and one more:", err)
	}
}

package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/test/must"
)

func TestMemoryBounds(t *testing.T) {
	ctx := t.Context()
	one := entry("", "x")
	one.Value = slices.Grow(one.Value, 100) // unused capacity counts
	if least := int64(cap(one.Value)); one.size() < least {
		t.Errorf("an entry has %d bytes, not %d", one.size(), least)
	}
	m := NewMemory(3*(one.size()+int64(len(id(0)))), time.Hour)
	for i := range 3 {
		must.OK(t, m.Put(ctx, "u", id(i), one))
	}
	_, err := get(ctx, m, "u", id(0)) // now 1 is least recently used
	must.OK(t, err)
	must.OK(t, m.Put(ctx, "u", id(3), one))
	var there []int
	for i := range 4 {
		if _, err := get(ctx, m, "u", id(i)); err == nil {
			there = append(there, i)
		}
	}
	if !slices.Equal(there, []int{0, 2, 3}) {
		t.Errorf("there are %v", there)
	}
	if err := m.Put(ctx, "u", id(3), one); err != nil || m.byAge.Len() != 3 || m.bytes != m.maxBytes {
		t.Errorf("again: %v, %d entries, %d bytes", err, m.byAge.Len(), m.bytes)
	}
	if err := m.Put(ctx, "u", id(9), entry("", strings.Repeat("x", 10_000))); !errors.Is(err, ErrTooLarge) {
		t.Error("too large:", err)
	}
}

func TestMemoryConcurrent(t *testing.T) {
	m := NewMemory(8192, time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				_ = m.Put(context.Background(), "u", id(i%20), entry("", "x"))
				_, _ = get(context.Background(), m, "u", id((i+7)%20))
				_ = m.Delete(context.Background(), "u", id((i+3)%20), Whole)
			}
		})
	}
	all.Wait()
	if m.bytes > m.maxBytes || m.byAge.Len() != len(m.byID) || len(m.byID) != len(m.shelf.(*memory).entries) {
		t.Errorf("%d bytes, %d entries, %d ids", m.bytes, m.byAge.Len(), len(m.byID))
	}
}

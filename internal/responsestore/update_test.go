package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// conversationID is the id of a conversation.
func conversationID(i int) string { return strings.Replace(id(i), "resp_", "conv_", 1) }

// TestUpdate checks that updates side by side lose nothing, on several nodes, too.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	shared := func() Store {
		s, _ := newShared(t, &certmagic.FileStorage{Path: dir}, Limits{time.Hour, 100})
		return s
	}
	memory := NewMemory(1<<20, time.Hour)
	for name, stores := range map[string][]Store{"memory": {memory, memory}, "storage": {shared(), shared()}} {
		t.Run(name, func(t *testing.T) {
			ctx, at := t.Context(), conversationID(0)
			if err := stores[0].Update(ctx, "u", at, nil); !errors.Is(err, ErrNotFound) {
				t.Error("nothing is updated:", err)
			}
			if err := stores[0].Put(ctx, at, entry("u", "", "x")); err != nil {
				t.Fatal(err)
			}
			if err := stores[0].Update(ctx, "other", at, nil); !errors.Is(err, ErrNotFound) {
				t.Error("another user's is updated:", err)
			}
			var all sync.WaitGroup
			const updates = 4
			for i := range updates {
				all.Go(func() {
					item := json.RawMessage(fmt.Sprintf(`{"id":"%d"}`, i))
					err := stores[i%2].Update(ctx, "u", at, func(e Entry) (*Entry, error) {
						e.Input = slices.Concat(e.Input, []json.RawMessage{item})
						return &e, nil
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			e, err := stores[0].Get(ctx, "u", at)
			if err != nil {
				t.Fatal(err)
			}
			e.Release()
			for i := range updates {
				if !slices.ContainsFunc(e.Input, func(item json.RawMessage) bool { return string(item) == fmt.Sprintf(`{"id":"%d"}`, i) }) {
					t.Errorf("item %d is lost: %s", i, e.Input)
				}
			}
			if err := stores[1].Delete(ctx, "u", at); err != nil {
				t.Error(err)
			}
			if _, err := stores[0].Get(ctx, "u", at); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		})
	}
}

// TestUpdatesShareMemory checks that updates which were all read before the first is stored do
// not wait for each other's memory.
func TestUpdatesShareMemory(t *testing.T) {
	const size, count = 1 << 16, 3
	s, _ := newLarge(t, size, count, count)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all, read sync.WaitGroup
	read.Add(count)
	for i := range count {
		all.Go(func() {
			if err := s.Update(ctx, "u", id(i), func(e Entry) (*Entry, error) {
				read.Done()
				read.Wait()
				return &e, nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

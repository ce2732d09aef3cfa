package responsestore

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
)

// TestOneIsChangedByMany checks that many changes of one entry at once all happen, and that
// another user's entry is stored meanwhile.
func TestOneIsChangedByMany(t *testing.T) {
	s, _ := newShared(t, &certmagic.FileStorage{Path: t.TempDir()}, Limits{time.Hour, 1000})
	at := conversationID(0)
	if err := s.Put(t.Context(), at, entry("a", "", "x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	const many = 3 * maxCalls
	for range many {
		all.Go(func() {
			if err := s.Update(ctx, "a", at, addItem); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 10 {
		if err := s.Put(ctx, id(i), entry("b", "", "x")); err != nil {
			t.Error("another user:", err)
		}
	}
	all.Wait()
	e, err := s.Get(ctx, "a", at)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	if got := len(e.Input); got < many {
		t.Errorf("%d items of %d changes", got, many)
	}
	if len(changes.byID) > 0 {
		t.Errorf("%d lines are left", len(changes.byID))
	}
}

func addItem(e Entry) (*Entry, error) {
	e.Input = slices.Concat(e.Input, []json.RawMessage{json.RawMessage(`{"id":"1"}`)})
	return &e, nil
}

// lockedStorage is a storage whose locks another node holds. It ignores contexts.
type lockedStorage struct {
	certmagic.Storage
	free chan struct{}
}

func (s lockedStorage) Lock(context.Context, string) error {
	<-s.free
	return nil
}

func (lockedStorage) Unlock(context.Context, string) error { return nil }

// TestLocksOfOthers checks that whoever waits for locks, of one entry or of many, takes no call
// from those who need none, and not all that wait for locks from another user.
func TestLocksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := lockedStorage{&certmagic.FileStorage{Path: t.TempDir()}, make(chan struct{})}
		s, _ := newShared(t, storage, Limits{time.Hour, 1000})
		defer s.Close()
		const many = 2 * maxCalls
		for i := range many {
			if err := s.Put(t.Context(), conversationID(i), entry("a", "", "x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Put(t.Context(), conversationID(many), entry("b", "", "x")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for i := range many {
			for range 2 { // the second one waits in this process
				all.Go(func() {
					_ = s.Update(ctx, "a", conversationID(i), addItem)
				})
			}
		}
		synctest.Wait()
		if got, err := s.Get(t.Context(), "b", conversationID(many)); err != nil {
			t.Error(err)
		} else {
			got.Release()
		}
		changed := make(chan error, 1)
		go func() { changed <- s.Update(ctx, "b", conversationID(many), addItem) }()
		synctest.Wait()
		for range maxCalls/2 + 1 { // those of a that have a call, and then that of b
			storage.free <- struct{}{}
		}
		synctest.Wait()
		select {
		case err := <-changed:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("another user's change got no call")
		}
		cancel()
		close(storage.free)
		all.Wait()
		synctest.Wait()
		if len(changes.byID) > 0 {
			t.Errorf("%d lines are left", len(changes.byID))
		}
	})
}

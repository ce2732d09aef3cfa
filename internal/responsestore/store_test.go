package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

func TestMain(m *testing.M) {
	// The storage notices only after some seconds that a lock has been released.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"))
}

// testTime is the time in the ids of the tests and the start of their clocks.
var testTime = time.Now().Truncate(time.Second)

// id returns the id of a response made n milliseconds after the first.
func id(n int) string {
	at := testTime.Add(time.Duration(n) * time.Millisecond)
	return fmt.Sprintf("%s%s%019d", responseid.Prefix, responseid.NewSuffix(at)[:7], n)
}

func entry(user, previous, text string) *Entry {
	return &Entry{
		User: user, Previous: previous,
		Response: json.RawMessage(`{"id":"<` + text + `>"}`),
		Input:    []json.RawMessage{json.RawMessage(`"in ` + text + `"`)},
		Output:   []responses.Item{{From: 6, To: 10 + len(text)}, {Own: json.RawMessage(`"own"`)}},
	}
}

// stores returns each kind of store with its clock.
func stores(t *testing.T, test func(t *testing.T, s Store, later func(time.Duration))) {
	t.Run("memory", func(t *testing.T) {
		m := NewMemory(1<<20, time.Hour)
		now := testTime
		m.now = func() time.Time { return now }
		test(t, m, func(d time.Duration) { now = now.Add(d) })
	})
	t.Run("shared", func(t *testing.T) {
		s := NewShared(&certmagic.FileStorage{Path: t.TempDir()}, Limits{time.Hour, 100}, slog.New(slog.DiscardHandler))
		t.Cleanup(s.Close)
		now := testTime
		s.now = func() time.Time { return now }
		test(t, s, func(d time.Duration) { now = now.Add(d) })
	})
}

func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, s Store, later func(time.Duration)) {
		ctx := t.Context()
		if err := s.Put(ctx, id(1), entry("ann", "", "one")); err != nil {
			t.Fatal(err)
		}
		e, err := s.Get(ctx, "ann", id(1))
		if err != nil || string(e.Response) != `{"id":"<one>"}` || fmt.Sprintf("%s", slices.Collect(e.Items())) != `["in one" "<one>" "own"]` {
			t.Errorf("%+v, %v", e, err)
		}
		for _, other := range [][2]string{{"bob", id(1)}, {"", id(1)}, {"ann", id(2)}, {"ann", ""}, {"ann", responseid.Prefix + "../../../etc/passwd"}} {
			if _, err := s.Get(ctx, other[0], other[1]); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q gets %q: %v", other[0], other[1], err)
			}
			if err := s.Delete(ctx, other[0], other[1]); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q deletes %q: %v", other[0], other[1], err)
			}
		}
		if err := s.Delete(ctx, "ann", id(1)); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(ctx, "ann", id(1)); !errors.Is(err, ErrNotFound) {
			t.Error("deleted, but there:", err)
		}
		if err := s.Put(ctx, id(3), entry("ann", "", "three")); err != nil {
			t.Fatal(err)
		}
		later(time.Hour + time.Second)
		if _, err := s.Get(ctx, "ann", id(3)); !errors.Is(err, ErrNotFound) {
			t.Error("too old, but there:", err)
		}
	})
}

func TestChain(t *testing.T) {
	stores(t, func(t *testing.T, s Store, _ func(time.Duration)) {
		ctx := t.Context()
		for i, previous := range []string{"", id(0), id(1)} {
			if err := s.Put(ctx, id(i), entry("ann", previous, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		items, err := NewReader(s, "ann", 1<<20, always).Chain(ctx, id(2))
		want := `["in 0" "<0>" "own" "in 1" "<1>" "own" "in 2" "<2>" "own"]`
		if got := fmt.Sprintf("%s", items); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
		if _, err := NewReader(s, "bob", 1<<20, always).Chain(ctx, id(2)); !errors.Is(err, ErrNotFound) {
			t.Error("another user's chain:", err)
		}
		if _, err := NewReader(s, "ann", 47, always).Chain(ctx, id(2)); !errors.Is(err, ErrTooLong) {
			t.Error("a chain that is too large:", err)
		}
		if err := s.Delete(ctx, "ann", id(0)); err != nil {
			t.Fatal(err)
		}
		_, err = NewReader(s, "ann", 1<<20, always).Chain(ctx, id(2))
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != id(0) {
			t.Error("a chain without its beginning:", err)
		}
		if err := s.Put(ctx, id(0), entry("ann", id(2), "round")); err != nil {
			t.Fatal(err)
		}
		if _, err := NewReader(s, "ann", 1<<30, always).Chain(ctx, id(2)); !errors.Is(err, ErrTooLong) {
			t.Error("a chain in a circle:", err)
		}
	})
}

func TestMemoryBounds(t *testing.T) {
	ctx := t.Context()
	one := entry("u", "", "x")
	one.Response = slices.Grow(one.Response, 100) // unused capacity counts
	if least := int64(cap(one.Response) + entryOverhead); one.Size() < least {
		t.Errorf("an entry has %d bytes, not %d", one.Size(), least)
	}
	m := NewMemory(3*(one.Size()+int64(len(id(0)))), time.Hour)
	for i := range 3 {
		if err := m.Put(ctx, id(i), one); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Get(ctx, "u", id(0)); err != nil { // now 1 is least recently used
		t.Fatal(err)
	}
	if err := m.Put(ctx, id(3), one); err != nil {
		t.Fatal(err)
	}
	var there []int
	for i := range 4 {
		if _, err := m.Get(ctx, "u", id(i)); err == nil {
			there = append(there, i)
		}
	}
	if !slices.Equal(there, []int{0, 2, 3}) {
		t.Errorf("there are %v", there)
	}
	if err := m.Put(ctx, id(3), one); err != nil || m.ages.Len() != 3 || m.bytes != m.maxBytes {
		t.Errorf("again: %v, %d entries, %d bytes", err, m.ages.Len(), m.bytes)
	}
	if err := m.Put(ctx, id(9), entry("u", "", strings.Repeat("x", 10_000))); !errors.Is(err, ErrTooLarge) {
		t.Error("too large:", err)
	}
}

func TestMemoryConcurrent(t *testing.T) {
	m := NewMemory(8192, time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				_ = m.Put(context.Background(), id(i%20), entry("u", "", "x"))
				_, _ = m.Get(context.Background(), "u", id((i+7)%20))
				_ = m.Delete(context.Background(), "u", id((i+3)%20))
			}
		})
	}
	all.Wait()
	if m.bytes > m.maxBytes || m.ages.Len() != len(m.byID) {
		t.Errorf("%d bytes, %d entries, %d ids", m.bytes, m.ages.Len(), len(m.byID))
	}
}

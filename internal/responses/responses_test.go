package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func id(n int) string { return fmt.Sprintf("%s%026d", idPrefix, n) }

func entry(user, previous, text string) *Entry {
	return &Entry{
		User: user, Previous: previous,
		Response: json.RawMessage(`{"id":"<` + text + `>"}`),
		Input:    []json.RawMessage{json.RawMessage(`"in ` + text + `"`)},
		Output:   []json.RawMessage{json.RawMessage(`"out ` + text + `"`)},
	}
}

// stores are all kinds of stores, each with a clock that the test turns.
func stores(t *testing.T, test func(t *testing.T, s Store, later func(time.Duration))) {
	t.Run("memory", func(t *testing.T) {
		m := NewMemory(1<<20, time.Hour)
		now := time.Now()
		m.now = func() time.Time { return now }
		test(t, m, func(d time.Duration) { now = now.Add(d) })
	})
	t.Run("shared", func(t *testing.T) {
		s := NewShared(&certmagic.FileStorage{Path: t.TempDir()}, time.Hour, slog.New(slog.DiscardHandler))
		t.Cleanup(s.Close)
		now := time.Now()
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
		if err != nil || string(e.Response) != `{"id":"<one>"}` || string(e.Input[0]) != `"in one"` || string(e.Output[0]) != `"out one"` {
			t.Errorf("%+v, %v", e, err)
		}
		for _, other := range [][2]string{{"bob", id(1)}, {"", id(1)}, {"ann", id(2)}, {"ann", ""}, {"ann", idPrefix + "../../../etc/passwd"}} {
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
		items, err := Chain(ctx, s, "ann", id(2), 1<<20)
		want := `["in 0" "out 0" "in 1" "out 1" "in 2" "out 2"]`
		if got := fmt.Sprintf("%s", items); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
		if _, err := Chain(ctx, s, "bob", id(2), 1<<20); !errors.Is(err, ErrNotFound) {
			t.Error("another user's chain:", err)
		}
		if _, err := Chain(ctx, s, "ann", id(2), 700); !errors.Is(err, ErrTooLong) {
			t.Error("a chain that is too large:", err)
		}
		if err := s.Delete(ctx, "ann", id(0)); err != nil {
			t.Fatal(err)
		}
		_, err = Chain(ctx, s, "ann", id(2), 1<<20)
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != id(0) {
			t.Error("a chain without its beginning:", err)
		}
		if err := s.Put(ctx, id(0), entry("ann", id(2), "round")); err != nil {
			t.Fatal(err)
		}
		if _, err := Chain(ctx, s, "ann", id(2), 1<<30); !errors.Is(err, ErrTooLong) {
			t.Error("a chain in a circle:", err)
		}
	})
}

func TestMemoryBounds(t *testing.T) {
	ctx := t.Context()
	one := entry("u", "", "x")
	m := NewMemory(3*(one.size()+int64(len(id(0)))), time.Hour)
	for i := range 3 {
		if err := m.Put(ctx, id(i), one); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Get(ctx, "u", id(0)); err != nil { // used, so that 1 goes first
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
	if err := m.Put(ctx, id(3), one); err != nil || m.used.Len() != 3 || m.bytes != m.maxBytes {
		t.Errorf("again: %v, %d entries, %d bytes", err, m.used.Len(), m.bytes)
	}
	if err := m.Put(ctx, id(9), entry("u", "", strings.Repeat("x", 10_000))); !errors.Is(err, ErrTooLarge) {
		t.Error("too large:", err)
	}
}

func TestMemoryConcurrent(t *testing.T) {
	m := NewMemory(4096, time.Hour)
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
	if m.bytes > m.maxBytes || m.used.Len() != len(m.byID) {
		t.Errorf("%d bytes, %d entries, %d ids", m.bytes, m.used.Len(), len(m.byID))
	}
}

func TestSweep(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	s := NewShared(&certmagic.FileStorage{Path: dir}, time.Hour, slog.New(slog.DiscardHandler))
	defer s.Close()
	if _, deleted, err := s.sweep(ctx, ""); deleted != 0 || err != nil {
		t.Errorf("an empty storage: %d deleted, %v", deleted, err)
	}
	for i := range 3 {
		if err := s.Put(ctx, id(i), entry("u", "", "x")); err != nil {
			t.Fatal(err)
		}
	}
	broken := filepath.Join(dir, filepath.FromSlash(folder), id(8)+".json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(2 * time.Hour)
	s.now = func() time.Time { return now }
	if err := s.Put(ctx, id(5), entry("u", "", "x")); err != nil {
		t.Fatal(err)
	}
	next, deleted, err := s.sweep(ctx, "")
	if deleted != 3 || err == nil || !strings.HasSuffix(next, id(8)+".json") {
		t.Errorf("%d deleted, next %q, %v", deleted, next, err)
	}
	if _, err := s.Get(ctx, "u", id(5)); err != nil {
		t.Error("a young one was deleted:", err)
	}
	if _, err := os.Stat(broken); err != nil {
		t.Error("what is not ours was deleted:", err)
	}
}

func TestBatch(t *testing.T) {
	keys := []string{"c", "a", "b"}
	for last, want := range map[string]string{"": "[a b c]", "a": "[b c]", "aa": "[b c]", "c": "[a b c]", "d": "[a b c]"} {
		if got := fmt.Sprint(batch(slices.Clone(keys), last)); got != want {
			t.Errorf("behind %q: %s, want %s", last, got, want)
		}
	}
	many := make([]string, sweepMost+5)
	for i := range many {
		many[i] = fmt.Sprintf("%06d", i)
	}
	first := batch(many, "")
	if rest := batch(many, first[len(first)-1]); len(first) != sweepMost || len(rest) != 5 {
		t.Errorf("%d, then %d", len(first), len(rest))
	}
}

func TestValidID(t *testing.T) {
	for text, want := range map[string]bool{
		id(1): true, "": false, "resp_": false, id(1) + "x": false, "msg__" + id(1)[5:]: false,
		idPrefix + strings.Repeat("A", 26): false, idPrefix + "../" + strings.Repeat("a", 23): false,
	} {
		if got := ValidID(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

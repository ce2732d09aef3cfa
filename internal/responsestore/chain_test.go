package responsestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// countingStore counts reads, and calls then at each.
type countingStore struct {
	Store
	reads int
	then  func(reads int)
}

func (c *countingStore) Get(ctx context.Context, user, id string) (*Entry, error) {
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
	if _, err := NewReader(s, "u", size-1, always).Items(ctx, named, text); !errors.Is(err, ErrTooLong) {
		t.Error("one byte more:", err)
	}
	for _, named := range []Reference{{id(1), "none"}, {id(7), `"own"`}} {
		_, err := NewReader(s, "u", 1<<20, always).Items(ctx, []Reference{{id(0), `"own"`}, named}, text)
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != named.Item {
			t.Errorf("%v: %v", named, err)
		}
	}
	if _, err := NewReader(s, "v", 1<<20, always).Items(ctx, named, text); !errors.Is(err, ErrNotFound) {
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

// loadingStorage counts the loaded bytes and the concurrent loads.
type loadingStorage struct {
	certmagic.Storage
	bytes, loading, most atomic.Int64
}

func (s *loadingStorage) Load(ctx context.Context, key string) ([]byte, error) {
	now := s.loading.Add(1)
	defer s.loading.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	data, err := s.Storage.Load(ctx, key)
	s.bytes.Add(int64(len(data)))
	return data, err
}

// newLarge returns a store with a cycle of large responses of small items. Few of
// them fit into memory at once.
func newLarge(t *testing.T, size, fit, count int) (*Shared, *loadingStorage) {
	storage := &loadingStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
	s := NewShared(storage, Limits{time.Hour, 1000}, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	s.memory = memoryOf(fit*2*(size+4096), 0)
	for i := range count {
		if err := s.Put(t.Context(), id(i), largeEntry(size, id((i+1)%count), fmt.Sprintf(`"in %d"`, i))); err != nil {
			t.Fatal(err)
		}
	}
	return s, storage
}

func largeEntry(size int, previous, item string) *Entry {
	return &Entry{
		User: "u", Previous: previous,
		Response: json.RawMessage(`{"instructions":"` + strings.Repeat("x", size) + `"}`),
		Input:    []json.RawMessage{json.RawMessage(item)},
	}
}

// TestChainMemory checks that a chain keeps items only, and that the memory of all
// chains together is bounded.
func TestChainMemory(t *testing.T) {
	const size, fit, count, readers = 128 << 10, 2, 8, 24
	s, storage := newLarge(t, size, fit, count)
	last := largeEntry(size, "", `"last"`)
	if err := s.Put(t.Context(), id(count-1), last); err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	chains := make([][]json.RawMessage, readers)
	var all sync.WaitGroup
	for i := range chains {
		all.Go(func() {
			var err error
			if chains[i], err = NewReader(s, "u", 1<<20, always).Chain(t.Context(), id(0)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if after := heap(); after > before+8<<20 {
		t.Errorf("%d chains take %d KiB", readers, (after-before)>>10)
	}
	if most := storage.most.Load(); most > fit {
		t.Errorf("%d loads at once", most)
	}
	for _, chain := range chains {
		if len(chain) != count || string(chain[0]) != `"last"` || string(chain[count-1]) != `"in 0"` {
			t.Errorf("%q", chain)
		}
	}
}

// TestChainReads checks the limit of bytes that a chain reads.
func TestChainReads(t *testing.T) {
	const size = 128 << 10
	s, storage := newLarge(t, size, 2, 3)
	r := NewReader(s, "u", 1<<20, always)
	r.read = 5 * size
	if _, err := r.Chain(t.Context(), id(0)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
	if got := storage.bytes.Load(); got > 6*size {
		t.Errorf("%d KiB were loaded", got>>10)
	}
	r = NewReader(s, "u", 1<<20, always)
	r.read = size
	if _, err := r.Items(t.Context(), []Reference{{id(0), `"in 0"`}, {id(1), `"in 1"`}}, text); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
}

// TestRoom checks that memory is returned once, and not before a call ends whose
// caller has left.
func TestRoom(t *testing.T) {
	storage := &brokenStorage{hang: make(chan struct{}), err: errors.New("broken")}
	s, _ := newShared(t, storage, Limits{time.Hour, 10})
	s.memory = memoryOf(transferMemory, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, id(1), entry("u", "", "x")); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if s.memory.Running() == 0 {
		t.Error("a call that goes on has no room")
	}
	close(storage.hang)
	all, err := s.memory.Acquire(t.Context(), "v", transferMemory)
	if err != nil {
		t.Fatal(err)
	}
	all.Release()

	whole, _ := newShared(t, &certmagic.FileStorage{Path: t.TempDir()}, Limits{time.Hour, 10})
	whole.memory = s.memory
	putAll(t, whole, 0, 1)
	e, err := whole.Get(t.Context(), "u", id(0))
	if err != nil {
		t.Fatal(err)
	}
	if s.memory.Running() == 0 {
		t.Error("an entry in use has no room")
	}
	e.Release()
	if _, err := whole.Get(t.Context(), "v", id(0)); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.memory.Acquire(t.Context(), "v", transferMemory); err != nil {
		t.Error("not all room was given back:", err)
	}
}

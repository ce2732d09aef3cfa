package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/caddy-codex/caddy-codex/internal/storedbook"
)

// memory is a Storage in memory.
type memory struct {
	certmagic.Storage

	mu     sync.Mutex
	values map[string]string
	fails  error
	hangs  bool
	stores int
}

func newMemory() *memory { return &memory{values: make(map[string]string)} }

func (m *memory) Load(ctx context.Context, key string) ([]byte, error) {
	// The lock is not held while waiting: the clock of a synctest bubble stands
	// still as long as another goroutine waits for it.
	if m.hanging() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return nil, m.fails
	}
	value, ok := m.values[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, fs.ErrNotExist)
	}
	return []byte(value), nil
}

func (m *memory) Store(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return m.fails
	}
	m.stores++
	m.values[key] = string(value)
	return nil
}

func (m *memory) hanging() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hangs
}

// restore makes the storage work again.
func (m *memory) restore() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hangs, m.fails = false, nil
}

// hold keeps a book in the storage.
func (m *memory) hold(t testing.TB, k *storedbook.Keeper) (release func()) {
	return k.Hold(m, "node", slog.New(slog.NewTextHandler(t.Output(), nil)))
}

// run simulates a run of a server that stores a new book and does some turns.
func run(t *testing.T, m *memory, turns int) (after Account, raw Raw) {
	t.Helper()
	b := New()
	release := m.hold(t, NewKeeper(b))
	synctest.Wait()
	for range turns {
		b.TurnEnded(record("alice", "id"))
	}
	release()
	return b.Account("alice"), b.Raw("alice")
}

// TestRestarts checks that counts survive restarts.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		begin := time.Now().Unix()
		for i := 1; i <= 3; i++ {
			a, raw := run(t, m, 2)
			if a.Requests != int64(2*i) || len(raw.Data) != 2*i || a.Since != begin || a.Started != time.Now().Unix() {
				t.Errorf("run %d: %+v, %d entries", i, a, len(raw.Data))
			}
			if a.ToolBufferMetrics.ByReason["nested"] != int64(2*i) || a.ByModel[0].Requests != int64(2*i) {
				t.Errorf("run %d: %+v", i, a)
			}
			time.Sleep(time.Hour)
		}
		if a, _ := run(t, m, 1); a.Requests != 7 || len(a.ByHour) != 4 || a.ByHour[0].Requests != 2 || len(a.ByDay) != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestReloads checks that nothing is counted twice when configurations change,
// with the same storage or another one, and that a document in the other one is
// not lost. As in Caddy, the new configuration holds before the old one releases;
// sometimes the new one is refused instead.
func TestReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newMemory(), newMemory()
		run(t, first, 5)
		run(t, second, 7)
		b := New()
		k := NewKeeper(b)
		release := first.hold(t, k)
		for i, m := range []*memory{first, first, second, second, first, second} {
			b.TurnEnded(record("alice", "id"))
			next := m.hold(t, k)
			if i%2 == 0 {
				release, next = next, release
			}
			next() // the old one, or the new one at once
			synctest.Wait()
		}
		time.Sleep(2 * saveInterval)
		release()
		if got := b.Account("alice").Requests; got != 5+6 {
			t.Errorf("%d requests", got)
		}
		second.hold(t, k)() // stores the book there, too
		for name, m := range map[string]*memory{"first": first, "second": second} {
			if a, _ := run(t, m, 0); a.Requests != 11 {
				t.Errorf("%s storage, after a restart: %+v", name, a)
			}
		}
		if aside := second.values["codex/usage/node.json"+storedbook.AsideSuffix]; !strings.Contains(aside, `"requests":7`) {
			t.Errorf("set aside: %.200q", aside)
		}
		if aside, ok := first.values["codex/usage/node.json"+storedbook.AsideSuffix]; ok {
			t.Errorf("its own document was set aside: %.200q", aside)
		}
	})
}

// TestSaves checks that a book is stored once a minute, and only if it changed.
func TestSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, b := newMemory(), New()
		release := m.hold(t, NewKeeper(b))
		defer release()
		for _, want := range []int{0, 1, 1, 2} {
			if want > m.stores {
				b.TurnEnded(record("alice", "id"))
			}
			time.Sleep(saveInterval)
			synctest.Wait()
			if m.stores != want {
				t.Errorf("stored %d times, want %d", m.stores, want)
			}
		}
	})
}

// TestStorageDown checks that a document is not lost when the storage fails or
// hangs as it should be read.
func TestStorageDown(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			run(t, m, 5)
			before := maps.Clone(m.values)
			m.hangs = hangs
			m.fails = errors.New("down")
			run(t, m, 3)
			if !maps.Equal(before, m.values) {
				t.Fatal("it was overwritten")
			}
			b := New()
			release := m.hold(t, NewKeeper(b))
			b.TurnEnded(record("alice", "id"))
			time.Sleep(5 * saveInterval)
			m.restore()
			time.Sleep(2 * saveInterval)
			if got := b.Account("alice").Requests; got != 6 {
				t.Errorf("%d requests once it is up again", got)
			}
			release()
			if a, _ := run(t, m, 0); a.Requests != 6 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestBrokenDocument checks that a document which cannot be read is set aside, and
// counting begins anew.
func TestBrokenDocument(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON":    `{"version":1,`,
		"empty":      "",
		"other JSON": `[1]`,
		"newer":      `{"version":2,"id":"x"}`,
		"null":       `{"version":1,"id":"x","accounts":{"alice":null}}`,
		"null model": `{"version":1,"id":"x","accounts":{"alice":{"models":{"m":null}}}}`,
		"too large":  strings.Repeat(" ", 64<<20+1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				const key = "codex/usage/node.json"
				m.values[key] = content
				if a, _ := run(t, m, 1); a.Requests != 1 {
					t.Errorf("%+v", a)
				}
				if m.values[key+storedbook.AsideSuffix] != content || !strings.Contains(m.values[key], `"version":1`) {
					t.Errorf("stored: %d bytes aside, %.200q", len(m.values[key+storedbook.AsideSuffix]), m.values[key])
				}
			})
		})
	}
}

// TestSparseDocument checks that members may be missing in a document.
func TestSparseDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.values["codex/usage/node.json"] = `{"version":1,"id":"x","accounts":{"alice":{"requests":4}}}`
		if a, _ := run(t, m, 1); a.Requests != 5 {
			t.Errorf("%+v", a)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"x","since":1,"accounts":{"a":{"requests":1,"models":{"m":{"errors":1}},"hours":[{"start":-5}]}},"entries":[{"time":1}]}`))
	f.Add([]byte(`{"version":1,"id":"x","accounts":{"a":{"days":[{"start":9223372036854775807},{"start":-9223372036854775808}]}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		b := New()
		if b.Restore(content) != nil {
			return
		}
		b.TurnEnded(record("a", "id"))
		b.Account(Everybody)
		stored, _ := b.Document(0)
		again, err := json.Marshal(stored)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Fatalf("what was stored cannot be read: %v", err)
		}
	})
}

// BenchmarkDocument copies a full book, which is what turns wait for.
func BenchmarkDocument(b *testing.B) {
	book := New()
	for user := range maxUsers {
		for i := range int(days.keep) {
			r := record(fmt.Sprint("user", user), "id")
			r.Time = r.Time.Add(time.Duration(i) * 24 * time.Hour)
			r.Model = fmt.Sprint("model", i%maxModels)
			book.TurnEnded(r)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		book.Document(0)
	}
}

package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
)

// memory is a Storage in memory.
type memory struct {
	certmagic.Storage

	mu     sync.Mutex
	values map[string]string
	fails  error
}

func (m *memory) Load(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[key]
	if m.fails == nil && !ok {
		return nil, fmt.Errorf("%s: %w", key, fs.ErrNotExist)
	}
	return []byte(value), m.fails
}

func (m *memory) Store(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails == nil {
		m.values[key] = string(value)
	}
	return m.fails
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	return m.fails
}

func (m *memory) List(_ context.Context, path string, _ bool) (keys []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.values {
		if strings.HasPrefix(key, path+"/") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, m.fails
}

func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
}

// node is a ledger that is kept in a storage until it is stopped.
type node struct {
	*Ledger
	stop func()
}

func startNode(m *memory, id string) node {
	l := New(time.Now)
	k := NewKeeper(l)
	stop := k.Hold(m, id, slog.New(slog.NewTextHandler(io.Discard, nil)))
	k.WaitRestored(time.Minute)
	return node{l, stop}
}

// TestRestart checks that counts survive the end of a process, also one that is killed in
// the middle of a turn.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{values: make(map[string]string)}
		k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Hour)}, {Tokens, 100, calendar(t, month)}}}
		n := startNode(m, "a")
		admitted(n.Ledger, k, 4)
		g, err := reserve(t, n.Ledger, k, 30)
		if err != nil {
			t.Fatal(err)
		}
		g.Close(20)
		n.stop()

		n = startNode(m, "a")
		if s := n.States(k, false); s[0].Used != 4 || s[1].Used != 20 {
			t.Fatalf("after an exit: %+v", s)
		}
		if got := admitted(n.Ledger, k, 10); got != 6 {
			t.Errorf("%d more requests", got)
		}
		if _, err := reserve(t, n.Ledger, k, 30); err != nil { // it runs when the process is killed
			t.Fatal(err)
		}
		time.Sleep(2 * SyncInterval)
		m.mu.Lock()
		killed := &memory{values: maps.Clone(m.values)}
		m.mu.Unlock()
		n.stop()

		n = startNode(killed, "a")
		defer n.stop()
		if s := n.States(k, false); s[0].Used != 10 || s[1].Used != 50 {
			t.Errorf("after a kill: %+v", s)
		}
	})
}

// TestNodes checks that nodes which share a storage agree within two intervals, also about
// turns that run, and after one of them has gone.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{values: make(map[string]string)}
		k := &Key{Account: "k", Limits: []Limit{{Requests, 10, sliding(t, time.Hour)}, {Tokens, 100, sliding(t, time.Hour)}}}
		a, b := startNode(m, "a"), startNode(m, "b")
		defer b.stop()
		if got := admitted(a.Ledger, k, 6); got != 6 {
			t.Fatal(got)
		}
		g, err := reserve(t, a.Ledger, k, 60)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*SyncInterval + time.Millisecond)
		if s := b.States(k, false); s[0].Used != 6 || s[1].Used != 60 {
			t.Errorf("after two intervals the other node knows %+v", s)
		}
		if got := admitted(b.Ledger, k, 10); got != 4 {
			t.Errorf("it admits %d", got)
		}
		if _, err := reserve(t, b.Ledger, k, 50); err == nil {
			t.Error("it reserves what the first has")
		} else if e, _ := errors.AsType[*ExceededError](err); e.Resets.IsZero() {
			t.Errorf("%+v", e)
		}
		g.Close(30)
		time.Sleep(2*SyncInterval + time.Millisecond)
		if admitted(a.Ledger, k, 1) != 0 || a.States(k, false)[0].Used != 10 || b.States(k, false)[1].Used != 30 {
			t.Errorf("%+v, %+v", a.States(k, false), b.States(k, false))
		}
		a.stop()
		for _, key := range []string{"codex/keys/broken.json", "codex/keys/a.json.broken"} {
			if err := m.Store(t.Context(), key, []byte("{")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2*SyncInterval + time.Millisecond)
		if admitted(b.Ledger, k, 1) != 0 {
			t.Error("what a node has counted is forgotten with it")
		}
		m.fail(errors.New("down"))
		time.Sleep(10 * SyncInterval)
		if admitted(b.Ledger, k, 1) != 0 {
			t.Error("what a node has counted is forgotten when the storage fails")
		}
		m.fail(nil)
		document, err := m.Load(t.Context(), "codex/keys/a.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"", string(document[:len(document)/2]), `{"version":1,"accounts":{"k":{"odd 1h":[]}}}`, "gone"} {
			err := m.Store(t.Context(), "codex/keys/a.json", []byte(bad))
			if err == nil && bad == "gone" {
				err = m.Delete(t.Context(), "codex/keys/a.json")
			}
			time.Sleep(2*SyncInterval + time.Millisecond)
			if err != nil || admitted(b.Ledger, k, 1) != 0 {
				t.Errorf("what a node has counted is forgotten with its document %q, %v", bad, err)
			}
		}
		if err := m.Store(t.Context(), "codex/keys/a.json", document); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour) // all windows are over
		if got := admitted(b.Ledger, k, 20); got != 10 {
			t.Errorf("%d requests in the next window", got)
		}
		if _, err := m.Load(t.Context(), "codex/keys/a.json"); err == nil {
			t.Error("the document of the node that has gone is still there")
		}
	})
}

// TestNodesOvershoot lets nodes admit what they can at any moment: beyond the limit is at
// most what the others admit within two intervals.
func TestNodesOvershoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{values: make(map[string]string)}
		const limit, rate = 100, 10 // each node admits one request in a tenth of a second
		k := &Key{Account: "k", Limits: []Limit{{Requests, limit, sliding(t, 24*time.Hour)}}}
		nodes := []node{startNode(m, "a"), startNode(m, "b"), startNode(m, "c")}
		sum := 0
		for range 600 {
			for _, n := range nodes {
				sum += admitted(n.Ledger, k, 1)
			}
			time.Sleep(time.Second / rate)
		}
		for _, n := range nodes {
			n.stop()
		}
		if most := limit + (len(nodes)-1)*rate*int(2*SyncInterval/time.Second); sum < limit || sum > most {
			t.Errorf("%d requests; the limit is %d, with what the nodes do not know yet %d", sum, limit, most)
		}
	})
}

// TestNodeAhead: what a node has counted while its clock was wrong counts elsewhere for a window
// from then on, also if the node never stores anything again. So does it if the reader's clock
// is set back.
func TestNodeAhead(t *testing.T) {
	k := &Key{Account: "k", Limits: []Limit{{Requests, 2, sliding(t, time.Minute)}}}
	for name, move := range map[string]func(ahead, reader *clock){
		"the node is ahead":           func(ahead, _ *clock) { ahead.move(1000 * time.Hour) },
		"the reader's clock set back": func(_, reader *clock) { reader.move(-1000 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			clocks := [2]*clock{newClock(), newClock()}
			node, reader := New(clocks[0].Now), New(clocks[1].Now)
			read := func(content []byte) {
				t.Helper()
				if _, err := reader.Share(map[string][]byte{"node": content}); err != nil {
					t.Fatal(err)
				}
			}
			store := func() []byte {
				t.Helper()
				d, _ := node.Document(0)
				content, err := json.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				return content
			}
			read(store())
			for range 2 { // also what is counted later, ahead of what was
				move(clocks[0], clocks[1])
				for range 2 {
					if err := node.Request(k); err != nil {
						t.Fatal(err)
					}
				}
				content := store()
				for second := range 70 {
					read(content)
					if used := reader.States(k, false)[0].Used; second <= 60 && used != 2 || second > 63 && used != 0 {
						t.Fatalf("%d requests count after %d s", used, second)
					}
					clocks[0].move(time.Second)
					clocks[1].move(time.Second)
				}
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"id":"x","at":1,"accounts":{"k":{"requests 1m":[[1,2]],"tokens day":[[-5,7],[9223372036854775807,1]]}}}`))
	f.Add([]byte(`{"version":1,"accounts":{"k":null,"":{"tokens month":null}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		l := New(time.Now)
		if l.Restore(content) != nil {
			return
		}
		if _, err := l.Share(map[string][]byte{"one": content, "other": content}); err != nil {
			t.Fatal(err)
		}
		k := &Key{Account: "k", Limits: []Limit{{Requests, 1, sliding(t, time.Minute)}, {Tokens, 1, calendar(t, day)}}}
		_ = l.Request(k)
		l.States(k, false)
		d, _ := l.Document(0)
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := New(time.Now).Restore(again); err != nil {
			t.Fatalf("what was stored cannot be read: %v", err)
		}
	})
}

// BenchmarkDocument copies the ledger of 1,000 keys with full windows, for which requests
// wait.
func BenchmarkDocument(b *testing.B) {
	c := newClock()
	l := New(c.Now)
	limits := []Limit{{Requests, 1 << 40, sliding(b, time.Hour)}, {Requests, 1 << 40, calendar(b, month)}}
	for range parts {
		c.move(time.Hour / parts)
		for i := range 1000 {
			_ = l.Request(&Key{Account: fmt.Sprintf("%032d", i), Limits: limits})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Document(0)
	}
}

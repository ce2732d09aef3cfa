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

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/test/ports"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTime is the time in the ids of the tests and the start of their clocks.
var testTime = time.Now().Truncate(time.Second)

// id returns the id of a response made n milliseconds after the first.
func id(n int) string {
	at := testTime.Add(time.Duration(n) * time.Millisecond)
	return fmt.Sprintf("%s%s%019d", responseid.Prefix, responseid.NewSuffix(at)[:7], n)
}

// conversationID is the id of a conversation.
func conversationID(i int) string { return strings.Replace(id(i), "resp_", "conv_", 1) }

func entry(user, previous, text string) *Entry {
	return &Entry{
		User: user, Previous: previous,
		Response: json.RawMessage(`{"id":"<` + text + `>"}`),
		Input:    []json.RawMessage{json.RawMessage(`"in ` + text + `"`)},
		Output:   []responses.Item{{From: 6, To: 10 + len(text)}, {Own: json.RawMessage(`"own"`)}},
	}
}

// engine is an engine under test.
type engine struct {
	Store
	// later lets time pass.
	later func(time.Duration)
	// other returns what another node, or the next process, has instead. Nil: nothing outlives it.
	other func(t *testing.T) Background
}

// engines tests each engine.
func engines(t *testing.T, test func(t *testing.T, e engine)) {
	t.Run("memory", func(t *testing.T) {
		m := NewMemory(1<<20, time.Hour)
		now := testTime
		m.now = func() time.Time { return now }
		test(t, engine{Store: m, later: func(d time.Duration) { now = now.Add(d) }})
	})
	t.Run("disk", func(t *testing.T) {
		dir, now := t.TempDir(), testTime
		open := func(t *testing.T) *Disk {
			d := NewDisk(dir)
			d.now = func() time.Time { return now }
			d.Limit(1<<30, time.Hour)
			if err := d.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			return d
		}
		d := open(t)
		test(t, engine{d, func(d time.Duration) { now = now.Add(d) }, func(t *testing.T) Background {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d = open(t)
			return d
		}})
	})
	for _, name := range []string{"redis", "cluster"} {
		t.Run(name, func(t *testing.T) {
			var settings []string
			if name == "cluster" {
				addr, err := ports.Free()
				if err != nil {
					t.Fatal(err)
				}
				_, port, _ := strings.Cut(addr, ":")
				settings = []string{"--cluster-enabled", "yes", "--cluster-port", port}
			}
			server := redisserver.Start(t, settings...)
			if name == "cluster" {
				server.Do("CLUSTER ADDSLOTSRANGE 0 16383")
				for !strings.Contains(server.Do("CLUSTER INFO"), "cluster_state:ok") {
					time.Sleep(10 * time.Millisecond)
				}
			}
			open := func(t *testing.T) Background { return openRedis(t, server.Addr, name == "cluster") }
			r := open(t).(*Redis)
			test(t, engine{r, func(d time.Duration) { age(t, r, d) }, open})
		})
	}
}

// openRedis returns an engine that is closed with the test.
func openRedis(t *testing.T, addr string, cluster bool) *Redis {
	r := NewRedis(RedisOptions{
		UniversalOptions: redis.UniversalOptions{Addrs: []string{addr}, IsClusterMode: cluster}, Prefix: "codex", MaxAge: time.Hour, MaxBytes: 1 << 30,
	}, slog.New(slog.DiscardHandler))
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// age shortens the lives of all keys.
func age(t *testing.T, r *Redis, by time.Duration) {
	t.Helper()
	keys := r.client.Keys(t.Context(), "*").Val()
	for _, key := range keys {
		left := r.client.PTTL(t.Context(), key).Val()
		if left < 0 {
			t.Errorf("%s has no end", key)
		}
		r.client.PExpire(t.Context(), key, left-by)
	}
}

func TestStore(t *testing.T) {
	engines(t, func(t *testing.T, s engine) {
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
		s.later(time.Hour + 3*time.Second)
		if _, err := s.Get(ctx, "ann", id(3)); !errors.Is(err, ErrNotFound) {
			t.Error("too old, but there:", err)
		}
	})
}

func TestChain(t *testing.T) {
	engines(t, func(t *testing.T, s engine) {
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
		if _, err := NewReader(s, "ann", 1<<20, func(int64) bool { return false }).Chain(ctx, id(2)); !errors.Is(err, ErrNoMemory) {
			t.Error("a chain without memory:", err)
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
		in := entry("ann", "", "in")
		in.Conversation = conversationID(0)
		if err := s.Put(ctx, id(9), in); err != nil {
			t.Fatal(err)
		}
		if _, err := NewReader(s, "ann", 1<<30, always).Chain(ctx, id(9)); !errors.Is(err, ErrInConversation) {
			t.Error("a response of a conversation:", err)
		}
	})
}

// TestLargeEntry checks that an entry and a chain come back that are larger than what is read
// without a reservation.
func TestLargeEntry(t *testing.T) {
	engines(t, func(t *testing.T, s engine) {
		text := strings.Repeat("x", freeTransfer)
		if err := s.Put(t.Context(), id(1), entry("u", "", text)); err != nil {
			t.Fatal(err)
		}
		e, err := s.Get(t.Context(), "u", id(1))
		if err != nil || string(e.Response) != `{"id":"<`+text+`>"}` {
			t.Fatal(err)
		}
		e.Release()
		if items, err := NewReader(s, "u", 1<<20, always).Chain(t.Context(), id(1)); err != nil || len(items) != 3 {
			t.Fatal(len(items), err)
		}
		if transfers.Running() != 0 {
			t.Error("memory was not released")
		}
		large := entry("u", "", strings.Repeat("x", maxEntry+1))
		if err := s.Put(t.Context(), id(2), large); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}

// TestConversation checks that of what many writers append to a conversation, at two nodes if
// there are several, nothing is lost or doubled.
func TestConversation(t *testing.T) {
	engines(t, func(t *testing.T, s engine) {
		ctx, at := t.Context(), conversationID(0)
		if err := s.Append(ctx, "u", at, nil); !errors.Is(err, ErrNotFound) {
			t.Error("nothing is appended to:", err)
		}
		if err := s.Put(ctx, at, &Entry{User: "u", Response: json.RawMessage(`{"a":1}`), Input: []json.RawMessage{json.RawMessage(`{"id":"first"}`)}}); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"append": s.Append(ctx, "v", at, nil), "remove": s.RemoveItem(ctx, "v", at, json.RawMessage(`{"id":"first"}`)), "set": s.SetObject(ctx, "v", at, json.RawMessage("{}")),
		} {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s of another user's: %v", what, err)
			}
		}
		writers := []Store{s}
		if _, shared := s.Store.(*Redis); shared {
			writers = append(writers, s.other(t))
		}
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				pair := []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"id":"a%d"}`, i)), json.RawMessage(fmt.Sprintf(`{"id":"b%d"}`, i))}
				if err := writers[i%len(writers)].Append(ctx, "u", at, pair); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := errors.Join(s.RemoveItem(ctx, "u", at, json.RawMessage(`{"id":"first"}`)), s.SetObject(ctx, "u", at, json.RawMessage(`{"a":2}`))); err != nil {
			t.Error(err)
		}
		if err := s.RemoveItem(ctx, "u", at, json.RawMessage(`{"id":"first"}`)); !errors.Is(err, ErrNotFound) {
			t.Error("removed twice:", err)
		}
		check := func(s Store) {
			t.Helper()
			e, err := s.Get(ctx, "u", at)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Release()
			if len(e.Input) != 64 || string(e.Response) != `{"a":2}` {
				t.Fatalf("%d items, %s", len(e.Input), e.Response)
			}
			seen := make(map[string]bool)
			for i := 0; i < 64; i += 2 {
				a, b := string(e.Input[i]), string(e.Input[i+1])
				if strings.Replace(a, "a", "b", 1) != b || seen[a] {
					t.Errorf("%s, %s", a, b)
				}
				seen[a] = true
			}
			if items, err := NewReader(s, "u", 1<<20, always).Chain(ctx, at); err != nil || len(items) != 64 {
				t.Errorf("%d items, %v", len(items), err)
			}
		}
		check(s)
		if s.other != nil {
			s.Store = s.other(t)
			check(s)
		}
		if err := s.Delete(ctx, "u", at); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(ctx, "u", at); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestLongChain checks that a chain of a thousand links is read, in Redis in one round trip.
func TestLongChain(t *testing.T) {
	engines(t, func(t *testing.T, s engine) {
		previous := ""
		for i := range 1000 {
			if _, slow := s.Store.(*Disk); slow && i == 100 {
				break // each is synced
			}
			if err := s.Put(t.Context(), id(i), entry("u", previous, "x")); err != nil {
				t.Fatal(err)
			}
			previous = id(i)
		}
		r, isRedis := s.Store.(*Redis)
		calls := new(countingHook)
		if isRedis {
			r.client.AddHook(calls)
		}
		reader := NewReader(s, "u", 1<<20, always)
		if _, err := reader.Chain(t.Context(), previous); err != nil { // the script is known then
			t.Fatal(err)
		}
		calls.n = 0
		begun := time.Now()
		items, err := NewReader(s, "u", 1<<20, always).Chain(t.Context(), previous)
		t.Log(len(items), "items after", time.Since(begun))
		if err != nil || len(items)%300 != 0 {
			t.Errorf("%d items, %v", len(items), err)
		}
		if isRedis && calls.n > 2 { // one more to reserve memory
			t.Errorf("%d calls", calls.n)
		}
	})
}

// countingHook counts commands.
type countingHook struct{ n int }

func (*countingHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "ping" {
			c.n++
		}
		return next(ctx, cmd)
	}
}
func (*countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func putAll(t *testing.T, s Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Put(t.Context(), id(i), entry("u", "", "x")); err != nil {
			t.Fatal(err)
		}
	}
}

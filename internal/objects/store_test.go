package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/store"
	"github.com/caddy-codex/caddy-codex/internal/test/must"
	"github.com/caddy-codex/caddy-codex/internal/test/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// storeIn returns a store in an engine.
func storeIn(engine store.Engine) *Store { return NewStore(engine, slog.New(slog.DiscardHandler)) }

// inMemory returns a small store in memory.
func inMemory() *Store { return storeIn(store.NewMemory(1<<20, time.Hour)) }

// id returns the id of a response, the nth one.
func id(n int) string { return fmt.Sprintf("%s%026d", responseid.Prefix, n) }

// conversationID returns the id of a conversation, the nth one.
func conversationID(n int) string { return strings.Replace(id(n), "resp_", "conv_", 1) }

// entry returns a stored response of a user. It follows the response with the id previous. It has
// one item of input, and two of output.
func entry(user, previous, text string) *Entry {
	return &Entry{
		User: user, Previous: previous,
		Response: json.RawMessage(`{"id":"<` + text + `>"}`),
		Input:    []json.RawMessage{json.RawMessage(`"in ` + text + `"`)},
		Output:   []json.RawMessage{json.RawMessage(`"<` + text + `>"`), json.RawMessage(`"own"`)},
	}
}

// begun returns a running response of the user "u".
func begun() *Entry {
	return &Entry{User: "u", Running: true, Response: json.RawMessage(`{"id":"r","status":"in_progress","completed_at":null,"error":null}`), Input: []json.RawMessage{json.RawMessage(`"in"`)}}
}

func putAll(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must.OK(t, s.Put(t.Context(), id(i), entry("u", "", "x")))
	}
}

// textOf returns the items of a stored entry as a text.
func textOf(t *testing.T, s *Store, user, id string) string {
	t.Helper()
	e, err := s.Get(t.Context(), user, id)
	if errors.Is(err, store.ErrNotFound) {
		return "none"
	}
	must.OK(t, err)
	defer e.Release()
	return fmt.Sprintf("%s %s", e.Input, e.Output)
}

// objectOf returns the object of a stored entry, after a mark if it is running.
func objectOf(t *testing.T, s *Store, id string) string {
	t.Helper()
	e, err := s.GetObject(t.Context(), "u", id)
	if errors.Is(err, store.ErrNotFound) {
		return "none"
	}
	must.OK(t, err)
	defer e.Release()
	if e.Running {
		return "running " + string(e.Response)
	}
	return string(e.Response)
}

// testedStore is a store under test.
type testedStore struct {
	*Store
	// lose returns a store with the same entries, and ends the leases of the first one. It is nil if
	// no others read the store.
	lose func() *Store
	// damage damages records of a part of an entry, so that they cannot be read. It may be nil.
	damage func(part store.Part, id, record string)
}

// stores tests a store in each engine.
func stores(t *testing.T, test func(t *testing.T, s testedStore)) {
	t.Run("memory", func(t *testing.T) { test(t, testedStore{Store: storeIn(store.NewMemory(16<<20, time.Hour))}) })
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		open := func() *store.Disk {
			d := store.NewDisk(dir)
			d.Limit(16<<20, time.Hour)
			must.OK(t, d.Start())
			return d
		}
		d := open()
		t.Cleanup(func() { _ = d.Close() })
		test(t, testedStore{Store: storeIn(d), lose: func() *Store {
			_ = d.Close()
			d = open()
			return storeIn(d)
		}})
	})
	t.Run("redis", func(t *testing.T) {
		server := redisserver.Start(t)
		open := func() *Store {
			r := store.NewRedis(store.RedisOptions{
				UniversalOptions: redis.UniversalOptions{Addrs: []string{server.Addr}}, Prefix: "codex", MaxAge: time.Hour, MaxBytes: 16 << 20,
			}, slog.New(slog.DiscardHandler))
			must.OK(t, r.Start())
			t.Cleanup(func() { _ = r.Close() })
			return storeIn(r)
		}
		each := func(keys, command string) {
			server.Do(`EVAL "for _, k in ipairs(redis.call('KEYS', '` + keys + `')) do redis.call(` + command + `) end" 0`)
		}
		test(t, testedStore{
			Store: open(),
			lose: func() *Store {
				each("*l:*", "'DEL', k")
				return open()
			},
			damage: func(part store.Part, id, record string) {
				each("*"+string(part)+":"+id, "'HSET', k, '0', '"+record+"'")
			},
		})
	})
}

// lastingStores tests a store in each engine that others read.
func lastingStores(t *testing.T, test func(t *testing.T, s testedStore)) {
	stores(t, func(t *testing.T, s testedStore) {
		if s.lose != nil {
			test(t, s)
		}
	})
}

// TestStore checks that only the user of an entry can use it, and that a conversation can be changed.
func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, s testedStore) {
		ctx, c := t.Context(), conversationID(1)
		in := entry("u", id(0), "one")
		in.Conversation = conversationID(0)
		object := entry("u", "", "object")
		object.Output = nil
		must.OK(t, errors.Join(s.Put(ctx, id(1), in), s.Put(ctx, c, object)))
		e, err := s.Get(ctx, "u", id(1))
		if err != nil || e.Previous != id(0) || e.Conversation != conversationID(0) || e.Running {
			t.Fatalf("%+v, %v", e, err)
		}
		e.Release()
		item := json.RawMessage(`{"id":"i"}`)
		for range 3 {
			if err := s.AddItems(ctx, "u", c, []json.RawMessage{item, json.RawMessage("2")}); err != nil {
				t.Error(err)
			}
		}
		for _, other := range [][2]string{{"v", c}, {"u", conversationID(2)}, {"u", ""}, {"u", "conv_../x"}, {"u", id(1)}} {
			_, _, release, findErr := s.FindItem(ctx, other[0], other[1], "i")
			release()
			for what, err := range map[string]error{"add": s.AddItems(ctx, other[0], other[1], nil), "set": s.SetObject(ctx, other[0], other[1], item), "find": findErr} {
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s: %q changes %q: %v", what, other[0], other[1], err)
				}
			}
			if other[1] == id(1) {
				continue
			}
			if textOf(t, s.Store, other[0], other[1]) != "none" || !errors.Is(s.Delete(ctx, other[0], other[1]), store.ErrNotFound) {
				t.Errorf("%q has %q", other[0], other[1])
			}
		}
		found, number, release, err := s.FindItem(ctx, "u", c, "i")
		if release(); err != nil || string(found) != string(item) || number != 1 {
			t.Fatalf("%s is number %d, %v", found, number, err)
		}
		if err := errors.Join(s.engine.Delete(ctx, "u", c, number), s.SetObject(ctx, "u", c, json.RawMessage(`{"a":2}`))); err != nil {
			t.Error(err)
		}
		if err := s.engine.Delete(ctx, "u", c, number); !errors.Is(err, store.ErrNotFound) {
			t.Error("removed twice:", err)
		}
		for id, want := range map[string]string{id(1): `["in one"] ["<one>" "own"]`, c: `["in object" 2 {"id":"i"} 2 {"id":"i"} 2] []`} {
			if text := textOf(t, s.Store, "u", id); text != want {
				t.Errorf("%s has %s", id, text)
			}
		}
		if one, two := objectOf(t, s.Store, id(1)), objectOf(t, s.Store, c); one != `{"id":"<one>"}` || two != `{"a":2}` {
			t.Error(one, two)
		}
		if err := s.Delete(ctx, "u", c); err != nil || textOf(t, s.Store, "u", c) != "none" {
			t.Error("deleted:", err)
		}
		if err := s.Put(ctx, "resp_1", in); !errors.Is(err, store.ErrNotFound) {
			t.Error("an invalid id:", err)
		}
	})
}

// TestLargeEntry checks that all items of a large entry are read, in their order.
func TestLargeEntry(t *testing.T) {
	stores(t, func(t *testing.T, s testedStore) {
		large := &Entry{User: "u", Response: json.RawMessage("{}")}
		for i := range 3000 {
			size := 100
			if i%1000 == 0 {
				size = 80_000
			}
			large.Input = append(large.Input, json.RawMessage(fmt.Sprintf(`{"id":"%d","x":"%s"}`, i, strings.Repeat("x", size))))
		}
		large.Input[1500] = json.RawMessage(`"` + strings.Repeat("y", store.FreeTransfer) + `"`)
		must.OK(t, errors.Join(s.Put(t.Context(), conversationID(1), large), s.Put(t.Context(), id(1), entry("u", "", strings.Repeat("z", store.FreeTransfer/4)))))
		if text := textOf(t, s.Store, "u", conversationID(1)); text != fmt.Sprintf("%s []", large.Input) {
			t.Errorf("%d bytes", len(text))
		}
		if object := objectOf(t, s.Store, id(1)); len(object) < store.FreeTransfer/4 {
			t.Errorf("%d bytes", len(object))
		}
		for _, n := range []int{0, 1, 1499, 2999} {
			item, number, release, err := s.FindItem(t.Context(), "u", conversationID(1), fmt.Sprint(n))
			if release(); err != nil || string(item) != string(large.Input[n]) || number != int64(n) {
				t.Errorf("item %d: number %d, %v", n, number, err)
			}
		}
		if items, err := NewReader(s.Store, "u", 4<<20, always).Chain(t.Context(), conversationID(1)); err != nil || len(items) != 3000 {
			t.Errorf("%d items, %v", len(items), err)
		}
	})
}

// TestDamaged checks that an entry that somebody has modified does not exist for its user.
func TestDamaged(t *testing.T) {
	stores(t, func(t *testing.T, s testedStore) {
		if s.damage == nil {
			return
		}
		deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
		for _, record := range []string{"[", "[1,", "x", deep} {
			putAll(t, s.Store, 1, 3)
			s.damage(store.Value, id(1), record)
			s.damage(store.Items, id(2), record)
			if one, two := objectOf(t, s.Store, id(1)), textOf(t, s.Store, "u", id(2)); one != "none" || two != "none" {
				t.Errorf("%.20s: %s, %s", record, one, two)
			}
			if _, err := NewReader(s.Store, "u", 1<<20, always).Chain(t.Context(), id(2)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%.20s: %v", record, err)
			}
		}
	})
}

func someEvents(first int64, names ...string) EventPage {
	events := EventPage{First: first}
	for _, name := range names {
		events.Events = append(events.Events, Event{Name: name, Data: []byte(`{"data":"of ` + name + `"}`)})
	}
	return events
}

// namesOf returns the names of the events of the first response. The parameter from is the number of
// the first event. A dot at the end means that no more events come.
func namesOf(t *testing.T, s *Store, from int64) string {
	t.Helper()
	events, err := s.Events(t.Context(), "u", id(1), from, 1<<20)
	if errors.Is(err, ErrDropped) {
		return "dropped"
	}
	must.OK(t, err)
	names := ""
	for _, e := range events.Events {
		names += e.Name
		if want := `{"data":"of ` + e.Name + `"}`; string(e.Data) != want && e.Name != "response.failed" {
			t.Errorf("%s has %s", e.Name, e.Data)
		}
	}
	if events.Over {
		names += "."
	}
	return names
}

// TestBackground checks the life of a response that runs, gets events, and ends.
func TestBackground(t *testing.T) {
	lastingStores(t, func(t *testing.T, s testedStore) {
		ctx := t.Context()
		must.OK(t, s.Put(ctx, id(1), begun()))
		if object := objectOf(t, s.Store, id(1)); !strings.HasPrefix(object, "running ") {
			t.Error(object)
		}
		if _, err := NewReader(s.Store, "u", 1<<20, always).Chain(ctx, id(1)); !errors.Is(err, store.ErrNotFound) {
			t.Error("followed before its end:", err)
		}
		add := func(events EventPage) {
			t.Helper()
			if cancelled, err := s.Continue(ctx, "u", id(1), events); cancelled || err != nil {
				t.Error(cancelled, err)
			}
		}
		for _, events := range []EventPage{{}, someEvents(0, "a", "b"), someEvents(3, "d")} {
			add(events)
		}
		for from, want := range []string{"ab", "b", "dropped", "d", ""} {
			if names := namesOf(t, s.Store, int64(from)); names != want {
				t.Errorf("from %d: %q", from, names)
			}
		}
		if _, err := s.Events(ctx, "v", id(1), 0, 1<<20); !errors.Is(err, store.ErrNotFound) {
			t.Error("another user's events:", err)
		}
		must.OK(t, s.Put(ctx, id(1), entry("u", "", "end")))
		if names := namesOf(t, s.Store, 4); names != "" {
			t.Errorf("the last event is missing, but %q", names)
		}
		last := someEvents(4, "e")
		last.Over = true
		add(last)
		for _, open := range []func() *Store{func() *Store { return s.Store }, s.lose} {
			s := open()
			if object := objectOf(t, s, id(1)); object != `{"id":"<end>"}` {
				t.Error(object)
			}
			if all, rest, after := namesOf(t, s, 3), namesOf(t, s, 5), namesOf(t, s, 9); all != "de." || rest != "." || after != "." {
				t.Errorf("%q, %q, %q", all, rest, after)
			}
		}
	})
}

// TestLost checks that a response whose owner is gone has failed for everybody, and that later calls of
// the owner do not change that.
func TestLost(t *testing.T) {
	lastingStores(t, func(t *testing.T, s testedStore) {
		ctx := t.Context()
		must.OK(t, s.Put(ctx, id(1), begun()))
		_, err := s.Continue(ctx, "u", id(1), someEvents(0, "a"))
		must.OK(t, err)
		other := s.lose()
		object := objectOf(t, other, id(1))
		if !strings.HasPrefix(object, `{"id":"r","status":"failed"`) {
			t.Error(object)
		}
		if names := namesOf(t, other, 0); names != "aresponse.failed." {
			t.Errorf("%q", names)
		}
		for _, from := range []int64{2, 9} { // a client that has read one event more than was stored, and one that has read more
			ahead, err := other.Events(ctx, "u", id(1), from, 1<<20)
			if err != nil || len(ahead.Events) != 1 || !strings.Contains(string(ahead.Events[0].Data), fmt.Sprintf(`"sequence_number":%d,`, from)) || !ahead.Over {
				t.Errorf("from %d: %s, %v", from, ahead.Events, err)
			}
		}
		for _, node := range []*Store{s.Store, other} {
			_, err := node.Continue(ctx, "u", id(1), someEvents(1, "b"))
			if putErr := node.Put(ctx, id(1), entry("u", "", "end")); err == nil || putErr == nil {
				t.Errorf("it goes on: %v, %v", err, putErr)
			}
		}
		if again := objectOf(t, other, id(1)); again != object {
			t.Errorf("%s became %s", object, again)
		}
		if text := textOf(t, other, "u", id(1)); text != `["in"] []` {
			t.Error(text)
		}
	})
}

// TestLostWhileRead checks that a reader of events gets the failure when the owner is gone, also if
// the one who has noticed that first has ended before all was stored.
func TestLostWhileRead(t *testing.T) {
	lastingStores(t, func(t *testing.T, s testedStore) {
		must.OK(t, s.Put(t.Context(), id(1), begun()))
		other := s.lose()
		half := &halfEngine{Engine: other.engine}
		_, err := storeIn(half).GetObject(t.Context(), "u", id(1))
		if !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
		if names := namesOf(t, other, 0); names != "response.failed." {
			t.Errorf("%q", names)
		}
		if object := objectOf(t, other, id(1)); !strings.Contains(object, `"failed"`) {
			t.Error(object)
		}
	})
}

// halfEngine stores nothing but events.
type halfEngine struct{ store.Engine }

func (halfEngine) Put(context.Context, string, string, *store.Put) error { return store.ErrUnavailable }

// TestLostAtTheEnd checks that a response whose events are all stored, but not its end, has failed, and
// that its events stay as they are.
func TestLostAtTheEnd(t *testing.T) {
	lastingStores(t, func(t *testing.T, s testedStore) {
		all := someEvents(0, "a", "b")
		all.Over = true
		must.OK(t, s.Put(t.Context(), id(1), begun()))
		_, err := s.Continue(t.Context(), "u", id(1), all)
		must.OK(t, err)
		other := s.lose()
		if object := objectOf(t, other, id(1)); !strings.Contains(object, `"failed"`) {
			t.Error(object)
		}
		if names, after := namesOf(t, other, 0), namesOf(t, other, 2); names != "ab." || after != "." {
			t.Errorf("%q, %q", names, after)
		}
	})
}

// TestChain checks that a chain is read as a whole, for its user and within bounds.
func TestChain(t *testing.T) {
	stores(t, func(t *testing.T, s testedStore) {
		ctx := t.Context()
		for i, previous := range []string{"", id(0), id(1)} {
			text := fmt.Sprint(i)
			if i == 1 {
				text += strings.Repeat("x", store.FreeTransfer/2) // which takes more than a page
			}
			must.OK(t, s.Put(ctx, id(i), entry("ann", previous, text)))
		}
		items, err := NewReader(s.Store, "ann", 1<<20, always).Chain(ctx, id(2))
		got := strings.ReplaceAll(fmt.Sprintf("%s", items), "x", "")
		if want := `["in 0" "<0>" "own" "in 1" "<1>" "own" "in 2" "<2>" "own"]`; err != nil || got != want {
			t.Errorf("got %.200s, %v; want %s", got, err, want)
		}
		if _, err := NewReader(s.Store, "bob", 1<<20, always).Chain(ctx, id(2)); !errors.Is(err, store.ErrNotFound) {
			t.Error("another user's chain:", err)
		}
		if _, err := NewReader(s.Store, "ann", store.FreeTransfer, always).Chain(ctx, id(2)); !errors.Is(err, ErrTooLong) {
			t.Error("a chain that is too large:", err)
		}
		if _, err := NewReader(s.Store, "ann", 1<<20, func(int64) bool { return false }).Chain(ctx, id(2)); !errors.Is(err, ErrNoMemory) {
			t.Error("a chain without memory:", err)
		}
		must.OK(t, s.Delete(ctx, "ann", id(0)))
		_, err = NewReader(s.Store, "ann", 1<<20, always).Chain(ctx, id(2))
		if missing := (*MissingError)(nil); !errors.As(err, &missing) || missing.ID != id(0) {
			t.Error("a chain without its beginning:", err)
		}
		must.OK(t, errors.Join(s.Put(ctx, id(0), entry("ann", id(2), "round")), s.Put(ctx, id(1), entry("ann", id(0), "small"))))
		if _, err := NewReader(s.Store, "ann", 1<<30, always).Chain(ctx, id(2)); !errors.Is(err, ErrTooLong) {
			t.Error("a chain in a circle:", err)
		}
		in := entry("ann", "", "in")
		in.Conversation = conversationID(0)
		must.OK(t, s.Put(ctx, id(9), in))
		if _, err := NewReader(s.Store, "ann", 1<<30, always).Chain(ctx, id(9)); !errors.Is(err, ErrInConversation) {
			t.Error("a response of a conversation:", err)
		}
	})
}

// TestManyItems checks that an entry with as many items as a request may have, or as many as a
// conversation may have, is stored, stored again, read and deleted in a moment.
func TestManyItems(t *testing.T) {
	stores(t, func(t *testing.T, s testedStore) {
		many := &Entry{User: "u", Response: json.RawMessage("{}")}
		for i := range prompt.MaxItems {
			many.Input = append(many.Input, json.RawMessage(fmt.Sprintf(`{"i":%d}`, i)))
		}
		some := *many
		some.Input = many.Input[:20_000]
		for id, e := range map[string]*Entry{id(1): many, conversationID(1): &some} {
			for what, use := range map[string]func() error{
				"put":    func() error { return errors.Join(s.Put(t.Context(), id, e), s.Put(t.Context(), id, e)) },
				"delete": func() error { return errors.Join(s.Put(t.Context(), id, e), s.Delete(t.Context(), "u", id)) },
				"read": func() error {
					err := s.Put(t.Context(), id, e)
					if text := textOf(t, s.Store, "u", id); text != fmt.Sprintf("%s []", e.Input) {
						t.Errorf("%d bytes were read", len(text))
					}
					return err
				},
			} {
				began := time.Now()
				if err := use(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s: %d items took %s", what, len(e.Input), took)
				} else {
					t.Log(what, len(e.Input), took)
				}
			}
		}
	})
}

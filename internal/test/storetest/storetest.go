// Package storetest has the tests that each engine in which responses are stored must pass.
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// Engine is a store under test, which is empty and has room for some megabytes.
type Engine struct {
	Store stores.Store
	Age   time.Duration       // the age at which entries are too old; longer than the tests take
	Later func(time.Duration) // moves the store's time forward by its argument for the store
	// Other returns a store with the same entries, as another node or the next process opens it. It
	// is nil if the entries do not outlive this store. It must not be nil for a
	// [stores.Background].
	Other func(*testing.T) stores.Store
	// Room is how many bytes the entries of one user may have. If it is 0, the tests that fill this
	// room are left out.
	Room int64
	// Shared says whether the tests use Store and the result of Other at the same time, as two
	// nodes do.
	Shared bool
}

func (e Engine) background() stores.Background { return e.Store.(stores.Background) }

func (e Engine) other(t *testing.T) stores.Background { return e.Other(t).(stores.Background) }

// expireLeases lets time pass until the leases of responses have expired.
func (e Engine) expireLeases() { e.Later(stores.LeaseTime) }

// Run runs the tests, each with an engine of its own.
func Run(t *testing.T, open func(t *testing.T) Engine) {
	tests := map[string]func(*testing.T, Engine){
		"store": testStore, "conversation": testConversation, "large entry": testLargeEntry, "order": testOrder,
	}
	first := open(t)
	if first.Room > 0 {
		tests["size of an object"] = testObjectSize
	}
	if _, ok := first.Store.(stores.Chains); ok {
		tests["chain"] = testChain
	}
	if _, ok := first.Store.(stores.Parts); ok {
		tests["parts"] = testParts
	}
	if _, ok := first.Store.(stores.Background); ok {
		tests["background"], tests["lost"], tests["lost while read"] = testBackground, testLost, testLostWhileRead
		tests["gap"], tests["watch"], tests["many events"] = testGap, testWatch, testManyEvents
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// testTime is the time in the ids of the tests.
var testTime = time.Now().Truncate(time.Second)

// ID returns the id of a response that was made n milliseconds after the start of the tests.
func ID(n int) string {
	at := testTime.Add(time.Duration(n) * time.Millisecond)
	return fmt.Sprintf("%s%s%019d", responseid.Prefix, responseid.NewSuffix(at)[:7], n)
}

// ConversationID returns the id of a conversation that was made n milliseconds after the start of
// the tests.
func ConversationID(n int) string { return strings.Replace(ID(n), "resp_", "conv_", 1) }

// Entry returns a stored response of a user. It follows the response with the id previous. It has
// one item of input, and two of output.
func Entry(user, previous, text string) *stores.Entry {
	return &stores.Entry{
		User: user, Previous: previous,
		Response: json.RawMessage(`{"id":"<` + text + `>"}`),
		Input:    []json.RawMessage{json.RawMessage(`"in ` + text + `"`)},
		Output:   []json.RawMessage{json.RawMessage(`"<` + text + `>"`), json.RawMessage(`"own"`)},
	}
}

// itemsOf returns the items of an entry as a text, and releases it.
func itemsOf(e *stores.Entry) string {
	defer e.Release()
	var all []string
	for item := range e.Items() {
		all = append(all, string(item))
	}
	return strings.Join(all, " ")
}

// testStore checks that only the user of an entry can read it, until it is deleted or too old.
func testStore(t *testing.T, tested Engine) {
	s, ctx := tested.Store, t.Context()
	in := Entry("ann", ID(0), "one")
	in.Conversation = ConversationID(0)
	if err := s.Put(ctx, ID(1), in); err != nil {
		t.Fatal(err)
	}
	e, err := s.Get(ctx, "ann", ID(1))
	if err != nil || string(e.Response) != `{"id":"<one>"}` || e.Previous != ID(0) || e.Conversation != ConversationID(0) || e.Running {
		t.Fatalf("%+v, %v", e, err)
	}
	if items := itemsOf(e); items != `"in one" "<one>" "own"` {
		t.Error(items)
	}
	for _, other := range [][2]string{{"bob", ID(1)}, {"", ID(1)}, {"ann", ID(2)}, {"ann", ""}, {"ann", responseid.Prefix + "../../../etc/passwd"}} {
		if _, err := s.Get(ctx, other[0], other[1]); !errors.Is(err, stores.ErrNotFound) {
			t.Errorf("%q gets %q: %v", other[0], other[1], err)
		}
		if err := s.Delete(ctx, other[0], other[1]); !errors.Is(err, stores.ErrNotFound) {
			t.Errorf("%q deletes %q: %v", other[0], other[1], err)
		}
	}
	if err := s.Put(ctx, ID(1), Entry("ann", "", "again")); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(ctx, "ann", ID(1)); err != nil || itemsOf(e) != `"in again" "<again>" "own"` {
		t.Errorf("%+v, %v", e, err)
	}
	if err := s.Delete(ctx, "ann", ID(1)); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, "ann", ID(1)); !errors.Is(err, stores.ErrNotFound) {
		t.Error("deleted, but there:", err)
	}
	if err := s.Put(ctx, ID(3), Entry("ann", "", "three")); err != nil {
		t.Fatal(err)
	}
	tested.Later(tested.Age + 3*time.Second)
	if _, err := s.Get(ctx, "ann", ID(3)); !errors.Is(err, stores.ErrNotFound) {
		t.Error("too old, but there:", err)
	}
}

// testOrder checks that items keep their order, and that RemoveItem removes only one of several
// equal items.
func testOrder(t *testing.T, tested Engine) {
	s, ctx, id := tested.Store, t.Context(), ConversationID(0)
	item := func(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }
	if err := s.Put(ctx, id, &stores.Entry{User: "u", Response: json.RawMessage("{}"), Input: []json.RawMessage{item("b"), item("a")}}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := s.Append(ctx, "u", id, []json.RawMessage{item(string(rune('z' - i))), item("b")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveItem(ctx, "u", id, item("b")); err != nil {
		t.Fatal(err)
	}
	e, err := s.Get(ctx, "u", id)
	if err != nil {
		t.Fatal(err)
	}
	if items := itemsOf(e); !strings.HasPrefix(items, `"a" "z" "b" "y" "b" "x"`) || strings.Count(items, `"b"`) != 12 {
		t.Error(items)
	}
}

// testObjectSize checks that the size of a conversation changes with its object: a larger object
// needs room, and a smaller one leaves room.
func testObjectSize(t *testing.T, tested Engine) {
	s, ctx := tested.Store, t.Context()
	object := func(size int64) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", int(size)) + `"`) }
	put := func(n int, size int64) {
		t.Helper()
		if err := s.Put(ctx, ConversationID(n), &stores.Entry{User: "u", Response: object(size)}); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(n int) bool {
		t.Helper()
		e, err := s.Get(ctx, "u", ConversationID(n))
		if errors.Is(err, stores.ErrNotFound) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		e.Release()
		return true
	}
	put(0, 1)
	put(1, tested.Room/2)
	if err := s.SetObject(ctx, "u", ConversationID(0), object(tested.Room)); !errors.Is(err, stores.ErrTooLarge) || !exists(1) {
		t.Errorf("an object that needs more than all the room: %v", err)
	}
	large := tested.Room / 4 * 3
	if err := s.SetObject(ctx, "u", ConversationID(0), object(large)); err != nil {
		t.Fatal(err)
	}
	if exists(1) || !exists(0) {
		t.Error("a larger object has not taken the room of another conversation")
	}
	if err := s.SetObject(ctx, "u", ConversationID(0), object(1)); err != nil {
		t.Fatal(err)
	}
	if put(2, large); !exists(0) || !exists(2) {
		t.Error("a smaller object has left no room for another conversation")
	}
}

// testChain checks that a chain is read as a whole, for its user and within bounds.
func testChain(t *testing.T, tested Engine) {
	chains, ctx := tested.Store.(stores.Chains), t.Context()
	for i, previous := range []string{"", ID(0), ID(1)} {
		if err := chains.Put(ctx, ID(i), Entry("ann", previous, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	read := func(user string, links int, bytes int64) (text string, next string, err error) {
		found, next, release, err := chains.Chain(ctx, user, ID(2), links, bytes)
		defer release()
		for _, link := range found {
			text += fmt.Sprintf("%s %s ", link.ID, link.Items)
		}
		return text, next, err
	}
	want := ID(2) + ` ["in 2" "<2>" "own"] ` + ID(1) + ` ["in 1" "<1>" "own"] ` + ID(0) + ` ["in 0" "<0>" "own"] `
	if text, next, err := read("ann", 3, 1<<20); text != want || next != "" || err != nil {
		t.Error(text, next, err)
	}
	if text, next, err := read("bob", 3, 1<<20); text != "" || next != ID(2) || err != nil {
		t.Error("another user's:", text, next, err)
	}
	for _, bounds := range [][2]int{{2, 1 << 20}, {3, 100}} {
		if _, _, err := read("ann", bounds[0], int64(bounds[1])); !errors.Is(err, stores.ErrTooLong) {
			t.Errorf("within %d: %v", bounds, err)
		}
	}
	if err := chains.Delete(ctx, "ann", ID(0)); err != nil {
		t.Fatal(err)
	}
	if _, next, err := read("ann", 3, 1<<20); next != ID(0) || err != nil {
		t.Error("without its beginning:", next, err)
	}
}

// testParts checks that a part of an entry has what was asked for, and only for its user.
func testParts(t *testing.T, tested Engine) {
	parts, ctx := tested.Store.(stores.Parts), t.Context()
	conversation := &stores.Entry{User: "u", Response: json.RawMessage(`{"a":1}`)}
	for i := range 200 {
		conversation.Input = append(conversation.Input, json.RawMessage(fmt.Sprintf(`{"id":"%d","x":"%s"}`, i, strings.Repeat("x", 10_000))))
	}
	if err := errors.Join(parts.Put(ctx, ConversationID(1), conversation), parts.Put(ctx, ID(1), Entry("u", "", "one"))); err != nil {
		t.Fatal(err)
	}
	for i, want := range conversation.Input {
		e, err := parts.GetPart(ctx, "u", ConversationID(1), fmt.Sprintf(`"%d"`, i))
		if err != nil || string(e.Response) != `{"a":1}` || !slices.ContainsFunc(e.Input, func(item json.RawMessage) bool { return string(item) == string(want) }) {
			t.Fatalf("item %d: %+v, %v", i, e, err)
		}
		e.Release()
	}
	for id, want := range map[string]string{ConversationID(1): `{"a":1}`, ID(1): `{"id":"<one>"}`} {
		e, err := parts.GetPart(ctx, "u", id, "")
		if err != nil || string(e.Response) != want || e.Running {
			t.Fatalf("%s: %+v, %v", id, e, err)
		}
		e.Release()
		for _, text := range []string{"", `"1"`} {
			if _, err := parts.GetPart(ctx, "v", id, text); !errors.Is(err, stores.ErrNotFound) {
				t.Error("another user's:", err)
			}
		}
	}
}

// testLargeEntry checks that a large entry can be read again, and that an entry that is too large
// is refused.
func testLargeEntry(t *testing.T, tested Engine) {
	s, text := tested.Store, strings.Repeat("x", stores.FreeTransfer)
	if err := s.Put(t.Context(), ID(1), Entry("u", "", text)); err != nil {
		t.Fatal(err)
	}
	e, err := s.Get(t.Context(), "u", ID(1))
	if err != nil || string(e.Response) != `{"id":"<`+text+`>"}` {
		t.Fatal(err)
	}
	e.Release()
	if err := s.Put(t.Context(), ID(2), Entry("u", "", strings.Repeat("x", stores.MaxEntry+1))); !errors.Is(err, stores.ErrTooLarge) {
		t.Error(err)
	}
}

// testConversation checks that items are neither lost nor doubled when many writers append to a
// conversation, at two nodes if the store is shared.
func testConversation(t *testing.T, tested Engine) {
	s, ctx, id := tested.Store, t.Context(), ConversationID(0)
	if err := s.Append(ctx, "u", id, nil); !errors.Is(err, stores.ErrNotFound) {
		t.Error("nothing is appended to:", err)
	}
	first := json.RawMessage(`{"id":"first"}`)
	if err := s.Put(ctx, id, &stores.Entry{User: "u", Response: json.RawMessage(`{"a":1}`), Input: []json.RawMessage{first}}); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"append": s.Append(ctx, "v", id, nil), "remove": s.RemoveItem(ctx, "v", id, first), "set": s.SetObject(ctx, "v", id, json.RawMessage("{}")),
	} {
		if !errors.Is(err, stores.ErrNotFound) {
			t.Errorf("%s of another user's: %v", what, err)
		}
	}
	writers := []stores.Store{s}
	if tested.Shared {
		writers = append(writers, tested.Other(t))
	}
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			pair := []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"id":"a%d"}`, i)), json.RawMessage(fmt.Sprintf(`{"id":"b%d"}`, i))}
			if err := writers[i%len(writers)].Append(ctx, "u", id, pair); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(s.RemoveItem(ctx, "u", id, first), s.SetObject(ctx, "u", id, json.RawMessage(`{"a":2}`))); err != nil {
		t.Error(err)
	}
	if err := s.RemoveItem(ctx, "u", id, first); !errors.Is(err, stores.ErrNotFound) {
		t.Error("removed twice:", err)
	}
	checkPairs(t, s, id)
	if tested.Other != nil {
		s = tested.Other(t)
		checkPairs(t, s, id)
	}
	if err := s.Delete(ctx, "u", id); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(ctx, "u", id); !errors.Is(err, stores.ErrNotFound) {
		t.Error(err)
	}
}

// checkPairs checks that a conversation has each of 32 pairs of items once.
func checkPairs(t *testing.T, s stores.Store, id string) {
	t.Helper()
	e, err := s.Get(t.Context(), "u", id)
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
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/responseid"
)

// tested is an engine under test, which is empty and has room for some megabytes.
type tested struct {
	Engine
	age   time.Duration       // the age at which entries are too old; longer than the tests take
	later func(time.Duration) // moves the engine's time forward by its argument
	// other returns an engine with the same entries, as another node or the next process opens it. It
	// is nil if the entries do not outlive this engine.
	other  func(*testing.T) Engine
	room   int64 // how many bytes the entries of one user may have
	shared bool  // the tests use the engine and the result of other at the same time, as two nodes do
}

// lease is the lease of the tests.
const lease = 30 * time.Second

// runContract runs the tests, each with an engine of its own.
func runContract(t *testing.T, open func(t *testing.T) tested) {
	for name, test := range map[string]func(*testing.T, tested){
		"entry": testEntry, "items": testItems, "room": testRoom, "pages": testPages, "links": testLinks, "large": testLarge,
		"events": testEvents, "lease": testLease, "give way": testGiveWay, "watch": testWatch,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// testTime is the time in the ids of the tests.
var testTime = time.Now().Truncate(time.Second)

// id returns the id of a response that was made n milliseconds after the start of the tests.
func id(n int) string {
	at := testTime.Add(time.Duration(n) * time.Millisecond)
	return fmt.Sprintf("%s%s%019d", responseid.Prefix, responseid.NewSuffix(at)[:7], n)
}

// conversationID returns the id of a conversation that was made n milliseconds after the start of
// the tests.
func conversationID(n int) string { return strings.Replace(id(n), "resp_", "conv_", 1) }

// entry returns an entry with a text as its value and its only item.
func entry(link, text string) *Put {
	return &Put{About: "about " + text, Link: link, Value: []byte(text), Items: [][]byte{[]byte(text)}}
}

// begun returns an entry that an owner begins.
func begun(owner string) *Put {
	return &Put{About: "begun", Value: []byte("{}"), Owner: owner, Lease: lease, Begin: true}
}

// added returns events that an owner adds.
func added(owner string, first int64, events ...string) *Append {
	a := &Append{Part: Events, First: first, Owner: owner, Lease: lease}
	for _, e := range events {
		a.Records = append(a.Records, []byte(e))
	}
	return a
}

// read returns a page of an entry of the user "u", with its records as one text.
func read(t *testing.T, e Engine, id string, part Part, from int64) (Page, string) {
	t.Helper()
	pages, err := e.Read(t.Context(), "u", id, Query{Part: part, From: from, Limit: math.MaxInt32})
	if err != nil {
		t.Fatalf("%s of %s from %d: %v", part, id, from, err)
	}
	return pages[0], string(bytes.Join(pages[0].Records, []byte(" ")))
}

// check fails the test if a use of an engine has failed, unless with the error want.
func check(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// exists reports whether a user has an entry.
func exists(t *testing.T, e Engine, user, id string) bool {
	t.Helper()
	_, err := e.Read(t.Context(), user, id, Query{Part: Value, Limit: 1})
	if err != nil {
		check(t, "read", err, ErrNotFound)
	}
	return err == nil
}

// testEntry checks that only the user of an entry can read it, until it is deleted or too old.
func testEntry(t *testing.T, e tested) {
	ctx := t.Context()
	check(t, "put", e.Put(ctx, "u", id(1), entry(id(0), "one")), nil)
	for part, want := range map[Part]string{Value: "one", Items: "one", Events: ""} {
		page, text := read(t, e, id(1), part, 0)
		if text != want || page.ID != id(1) || page.About != "about one" || page.Link != id(0) || page.Leased || page.EndedBy != "" || page.Bytes < 512 {
			t.Errorf("%s: %q, %+v", part, text, page)
		}
	}
	for _, other := range [][2]string{{"v", id(1)}, {"", id(1)}, {"u", id(2)}} {
		if exists(t, e, other[0], other[1]) {
			t.Errorf("%q gets %q", other[0], other[1])
		}
		_, err := e.Append(ctx, other[0], other[1], &Append{Part: Items})
		check(t, "append", err, ErrNotFound)
		check(t, "keep", e.Put(ctx, other[0], other[1], &Put{Keep: true}), ErrNotFound)
		check(t, "delete", e.Delete(ctx, other[0], other[1], Whole), ErrNotFound)
		check(t, "delete an item", e.Delete(ctx, other[0], other[1], 0), ErrNotFound)
	}
	check(t, "put", e.Put(ctx, "u", id(1), entry("", "again")), nil)
	if page, text := read(t, e, id(1), Items, 0); text != "again" || page.Link != "" || page.Next != 1 {
		t.Errorf("replaced: %q, %+v", text, page)
	}
	check(t, "delete", e.Delete(ctx, "u", id(1), Whole), nil)
	if exists(t, e, "u", id(1)) {
		t.Error("deleted, but there")
	}
	check(t, "put", e.Put(ctx, "u", id(3), entry("", "three")), nil)
	e.later(e.age + 3*time.Second)
	if exists(t, e, "u", id(3)) {
		t.Error("too old, but there")
	}
	check(t, "put", e.Put(ctx, "u", id(3), entry("", "new")), nil)
	if _, text := read(t, e, id(3), Items, 0); text != "new" {
		t.Error(text)
	}
}

// testItems checks that items are neither lost nor doubled when many writers add them, at two nodes if
// the engine is shared, that a deleted item keeps its number, and that a new value keeps the items.
func testItems(t *testing.T, e tested) {
	ctx, id := t.Context(), conversationID(0)
	check(t, "put", e.Put(ctx, "u", id, entry("", "first")), nil)
	writers := []Engine{e}
	if e.shared {
		writers = append(writers, e.other(t))
	}
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			a := &Append{Part: Items, Owner: fmt.Sprintf("token-%02d", i), Records: [][]byte{fmt.Append(nil, "a", i), fmt.Append(nil, "b", i)}}
			_, err := writers[i%len(writers)].Append(ctx, "u", id, a)
			check(t, "append", err, nil)
		})
	}
	all.Wait()
	check(t, "delete an item", e.Delete(ctx, "u", id, 0), nil)
	check(t, "delete it again", e.Delete(ctx, "u", id, 0), ErrNotFound)
	check(t, "delete an item that there is not", e.Delete(ctx, "u", id, 65), ErrNotFound)
	check(t, "keep", e.Put(ctx, "u", id, &Put{About: "new", Value: []byte("object"), Keep: true}), nil)
	checkPairs := func(e Engine) {
		t.Helper()
		if page, text := read(t, e, id, Value, 0); text != "object" || page.About != "new" {
			t.Errorf("%q, %+v", text, page)
		}
		page, _ := read(t, e, id, Items, 0)
		if page.Next != 65 || len(page.Records) != 65 || len(page.Records[0]) != 0 {
			t.Fatalf("%d items, %q", page.Next, page.Records)
		}
		seen := make(map[string]bool)
		for i := 1; i < 65; i += 2 {
			a, b := string(page.Records[i]), string(page.Records[i+1])
			if strings.Replace(a, "a", "b", 1) != b || seen[a] {
				t.Errorf("%s, %s", a, b)
			}
			seen[a] = true
		}
	}
	checkPairs(e)
	if e.other != nil {
		checkPairs(e.other(t))
	}
}

// testRoom checks that the bytes of an entry change with its value: a larger one needs room, and a
// smaller one leaves room.
func testRoom(t *testing.T, e tested) {
	ctx := t.Context()
	value := func(size int64) []byte { return bytes.Repeat([]byte("x"), int(size)) }
	put := func(n int, size int64, keep bool) error {
		return e.Put(ctx, "u", id(n), &Put{Value: value(size), Keep: keep})
	}
	check(t, "put", errors.Join(put(0, 1, false), put(1, e.room/2, false)), nil)
	check(t, "a value that needs more than all the room", put(0, e.room, true), ErrTooLarge)
	if !exists(t, e, "u", id(1)) {
		t.Error("a value that was refused has taken the room of another entry")
	}
	large := e.room / 4 * 3
	check(t, "a larger value", put(0, large, true), nil)
	if exists(t, e, "u", id(1)) || !exists(t, e, "u", id(0)) {
		t.Error("a larger value has not taken the room of another entry")
	}
	check(t, "a smaller value", put(0, 1, true), nil)
	if check(t, "put", put(2, large, false), nil); !exists(t, e, "u", id(0)) || !exists(t, e, "u", id(2)) {
		t.Error("a smaller value has left no room for another entry")
	}
	_, err := e.Append(ctx, "u", id(0), &Append{Part: Items, Records: [][]byte{value(e.room)}, Owner: "token-0"})
	check(t, "items that need more than all the room", err, ErrTooLarge)
	_, err = e.Append(ctx, "u", id(0), &Append{Part: Items, Records: [][]byte{value(e.room / 2)}, Owner: "token-1"})
	if check(t, "items", err, nil); exists(t, e, "u", id(2)) {
		t.Error("items have not taken the room of another entry")
	}
}

// testPages checks that all records are read, piece by piece.
func testPages(t *testing.T, e tested) {
	ctx := t.Context()
	check(t, "put", e.Put(ctx, "u", id(1), begun("o")), nil)
	records := slices.Repeat([]string{strings.Repeat("x", 10_000)}, 300)
	for i := range records {
		records[i] = fmt.Sprintf("%04d%s", i, records[i])
	}
	items := added("o", 0, records...)
	items.Part = Items
	for _, a := range []*Append{added("o", 0, records...), items} {
		if a.Part == Items && e.other != nil {
			check(t, "delete", e.Delete(ctx, "u", id(1), Whole), nil)
			check(t, "put", e.Put(ctx, "u", id(1), begun("o")), nil)
		}
		_, err := e.Append(ctx, "u", id(1), a)
		check(t, "append", err, nil)
		const size, limit = 10_004 + RecordOverhead, 64 << 10
		for from := int64(0); from < 300; {
			small, err := e.Read(ctx, "u", id(1), Query{Part: a.Part, From: from, Limit: size - 1})
			if err != nil || len(small[0].Records) > 0 || small[0].Larger != size || small[0].Next != 300 {
				t.Fatalf("below the size of a record: %+v, %v", small, err)
			}
			pages, err := e.Read(ctx, "u", id(1), Query{Part: a.Part, From: from, Limit: limit})
			if err != nil || len(pages[0].Records) == 0 || len(pages[0].Records) > limit/size || pages[0].Larger != 0 {
				t.Fatal(from, err)
			}
			for _, record := range pages[0].Records {
				if string(record) != records[from] {
					t.Errorf("record %d is %.10s", from, record)
				}
				from++
			}
		}
	}
}

// testLinks checks that the pages of linked entries follow, within bounds and for their user.
func testLinks(t *testing.T, e tested) {
	ctx := t.Context()
	for i, link := range []string{"", id(0), id(1)} {
		check(t, "put", e.Put(ctx, "u", id(i), entry(link, fmt.Sprint(i))), nil)
	}
	check(t, "put", e.Put(ctx, "v", id(9), entry(id(1), "v's")), nil)
	for _, c := range []struct {
		user, id string
		limit    int64
		links    int
		want     string
	}{
		{"u", id(2), 1000, 9, "2 1 0"}, {"u", id(2), 1000, 1, "2 1"}, {"u", id(2), 1000, 0, "2"},
		{"u", id(2), 2 * (1 + RecordOverhead), 9, "2 1"}, {"v", id(9), 1000, 9, "v's"},
	} {
		pages, err := e.Read(ctx, c.user, c.id, Query{Part: Items, Limit: c.limit, Links: c.links})
		check(t, "read", err, nil)
		var got []string
		for _, page := range pages {
			got = append(got, string(bytes.Join(page.Records, nil)))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%d links in %d bytes: %q, want %s", c.links, c.limit, got, c.want)
		}
	}
}

// testLarge checks that a large entry can be read again, and that an entry that is too large is
// refused.
func testLarge(t *testing.T, e tested) {
	text := strings.Repeat("x", FreeTransfer)
	check(t, "put", e.Put(t.Context(), "u", id(1), entry("", text)), nil)
	for _, part := range []Part{Value, Items} {
		if _, got := read(t, e, id(1), part, 0); got != text {
			t.Errorf("%s has %d bytes", part, len(got))
		}
	}
	check(t, "too large", e.Put(t.Context(), "u", id(2), entry("", strings.Repeat("x", MaxEntry+1))), ErrTooLarge)
}

// testEvents checks the life of an entry that has an owner, gets events, and ends.
func testEvents(t *testing.T, e tested) {
	ctx := t.Context()
	add := func(a *Append) {
		t.Helper()
		cancelled, err := e.Append(ctx, "u", id(1), a)
		if check(t, "append", err, nil); cancelled {
			t.Error("cancelled")
		}
	}
	check(t, "put", e.Put(ctx, "u", id(1), begun("o")), nil)
	for _, a := range []*Append{added("o", 0, "a", "b"), added("o", 1, "b", "c"), added("o", 3)} {
		add(a)
	}
	for from, want := range []string{"a b c", "b c", "c", ""} {
		if page, text := read(t, e, id(1), Events, int64(from)); text != want || page.Next != 3 || !page.Leased || page.EndedBy != "" {
			t.Errorf("from %d: %q, %+v", from, text, page)
		}
	}
	_, err := e.Append(ctx, "u", id(2), added("o", 0))
	check(t, "events of nothing", err, ErrNotFound)
	end := entry("", "end")
	end.Owner, end.Lease = "o", lease
	check(t, "put", e.Put(ctx, "u", id(1), end), nil)
	add(added("o", 4, "e")) // without d
	last := added("o", 5, "f")
	last.Over = true
	add(last)
	add(added("o", 6, "g"))
	checkEnd := func(e Engine) {
		t.Helper()
		for from, want := range map[int64]string{0: "a b c", 3: "", 4: "e f", 6: "", 9: ""} {
			if page, text := read(t, e, id(1), Events, from); text != want || page.Next != 6 || page.Leased || page.EndedBy != "o" {
				t.Errorf("from %d: %q, %+v", from, text, page)
			}
		}
		if _, text := read(t, e, id(1), Value, 0); text != "end" {
			t.Error(text)
		}
	}
	checkEnd(e)
	if e.other != nil {
		checkEnd(e.other(t))
	}
}

// testLease checks that nobody takes an entry over from an owner with a lease, and that an owner who
// has lost it changes nothing any more.
func testLease(t *testing.T, e tested) {
	ctx := t.Context()
	if e.other == nil {
		return
	}
	check(t, "put", e.Put(ctx, "u", id(1), begun("o")), nil)
	_, err := e.Append(ctx, "u", id(1), added("o", 0, "a"))
	check(t, "append", err, nil)
	last := added("thief", 1, "lost")
	last.Lease, last.Over = 0, true
	_, err = e.Append(ctx, "u", id(1), last)
	check(t, "taken over from an owner with a lease", err, ErrEnded)
	other := e.other(t)
	e.later(lease)
	if page, _ := read(t, other, id(1), Events, 0); page.Leased {
		t.Error("the lease has not ended")
	}
	_, err = other.Append(ctx, "u", id(1), added("thief", 1, "x"))
	check(t, "added by another owner", err, ErrEnded)
	for range 2 {
		_, err = other.Append(ctx, "u", id(1), last)
		check(t, "taken over", err, nil)
	}
	check(t, "keep", other.Put(ctx, "u", id(1), &Put{About: "lost", Keep: true, Owner: "thief"}), nil)
	for _, e := range []Engine{e, other} {
		if e != other && !e.(tested).shared {
			continue
		}
		_, err := e.Append(ctx, "u", id(1), added("o", 1, "b"))
		check(t, "the first owner adds", err, ErrEnded)
		check(t, "the first owner stores", e.Put(ctx, "u", id(1), &Put{Owner: "o", Lease: lease}), ErrEnded)
	}
	if page, text := read(t, other, id(1), Events, 0); text != "a lost" || page.EndedBy != "thief" || page.About != "lost" {
		t.Errorf("%q, %+v", text, page)
	}
}

// testGiveWay checks that events take the room of old entries, but neither more than there is nor that
// of the end of their entry.
func testGiveWay(t *testing.T, e tested) {
	ctx := t.Context()
	check(t, "put", errors.Join(e.Put(ctx, "u", id(1), &Put{Value: make([]byte, e.room/2)}), e.Put(ctx, "u", id(2), begun("o"))), nil)
	event := strings.Repeat("x", int(e.room)/4)
	for n := range int64(6) {
		_, err := e.Append(ctx, "u", id(2), added("o", n, event))
		check(t, "append", err, nil)
	}
	if exists(t, e, "u", id(1)) || !exists(t, e, "u", id(2)) {
		t.Error("events have not taken the room of an old entry")
	}
	if page, _ := read(t, e, id(2), Events, 0); page.Next != 6 || len(page.Records) != 3 {
		t.Errorf("%d events, %d of them are there", page.Next, len(page.Records))
	}
	end := &Put{Value: []byte(strings.Repeat("y", int(e.room)/2)), Owner: "o", Lease: lease}
	check(t, "the end", e.Put(ctx, "u", id(2), end), nil)
	if page, _ := read(t, e, id(2), Events, 0); page.Next != 6 {
		t.Errorf("%d events", page.Next)
	}
	check(t, "another one", e.Put(ctx, "u", id(3), entry("", "new")), nil)
}

// testWatch checks that a change at one node closes the channel of Watch at another node long before
// WatchTime, and that the owner of an entry gets to know that somebody wants it to stop. If the engine
// is not shared, it checks only that the channel is closed.
func testWatch(t *testing.T, e tested) {
	if !e.shared {
		select {
		case <-e.Watch(id(1)):
		case <-time.After(10 * WatchTime):
			t.Error("no look is due")
		}
		return
	}
	ctx, reader := t.Context(), e.other(t)
	check(t, "put", e.Put(ctx, "u", id(1), begun("o")), nil)
	// notices repeats a change until the watching engine, which may not have subscribed yet, notices it.
	notices := func(watching, changing Engine, change func() *Append) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			changed, began := watching.Watch(id(1)), time.Now()
			_, err := changing.Append(ctx, "u", id(1), change())
			check(t, "append", err, nil)
			<-changed
			if time.Since(began) < WatchTime/2 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("a change was not noticed")
			}
		}
	}
	n := int64(-1)
	notices(reader, e, func() *Append {
		n++
		return added("o", n, "e")
	})
	notices(e, reader, func() *Append { return &Append{Part: Events, Cancel: true} })
	cancelled, err := e.Append(ctx, "u", id(1), added("o", n))
	if check(t, "append", err, nil); !cancelled {
		t.Error("not cancelled")
	}
	_, err = reader.Append(ctx, "v", id(1), &Append{Part: Events, Cancel: true})
	check(t, "another user cancels", err, ErrNotFound)
}

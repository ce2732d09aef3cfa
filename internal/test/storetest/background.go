package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// Begun returns a running response of a user.
func Begun(user string) *stores.Entry {
	return &stores.Entry{User: user, Response: json.RawMessage(`{"id":"r","status":"in_progress","completed_at":null,"error":null}`), Input: []json.RawMessage{json.RawMessage(`"in"`)}}
}

func someEvents(first int64, names ...string) stores.Events {
	events := stores.Events{First: first}
	for _, name := range names {
		events.Events = append(events.Events, stores.Event{Name: name, Data: []byte(`{"data":"of ` + name + `"}`)})
	}
	return events
}

// namesOf returns the names of the events of a response. The parameter from is the number of the
// first event. A dot at the end means that no more events come.
func namesOf(t *testing.T, b stores.Background, from int64) string {
	t.Helper()
	events, err := b.Events(t.Context(), "u", ID(1), from, 1<<20)
	if errors.Is(err, stores.ErrDropped) {
		return "dropped"
	}
	if err != nil {
		t.Fatal(err)
	}
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

// testBackground checks the life of a response that runs, gets events, and ends.
func testBackground(t *testing.T, tested Engine) {
	b := tested.background()
	ctx := t.Context()
	if err := b.Begin(ctx, ID(1), Begun("u")); err != nil {
		t.Fatal(err)
	}
	if e, err := b.Get(ctx, "u", ID(1)); err != nil || !e.Running {
		t.Fatalf("%+v, %v", e, err)
	}
	if chains, ok := b.(stores.Chains); ok {
		if links, next, release, err := chains.Chain(ctx, "u", ID(1), 9, 1<<20); len(links) > 0 || next != ID(1) || err != nil {
			t.Error("followed before its end:", links, next, err)
		} else {
			release()
		}
	}
	if names := namesOf(t, b, 0); names != "" {
		t.Errorf("%q", names)
	}
	for _, events := range []stores.Events{someEvents(0, "a", "b"), someEvents(1, "b", "c"), {First: 3}} { // the event named b is sent twice
		if cancelled, err := b.Continue(ctx, "u", ID(1), events); cancelled || err != nil {
			t.Error(cancelled, err)
		}
	}
	for from, want := range []string{"abc", "bc", "c", ""} {
		if names := namesOf(t, b, int64(from)); names != want {
			t.Errorf("from %d: %q", from, names)
		}
	}
	if _, err := b.Events(ctx, "v", ID(1), 0, 1<<20); !errors.Is(err, stores.ErrNotFound) {
		t.Error("another user's events:", err)
	}
	if _, err := b.Continue(ctx, "u", ID(2), stores.Events{}); !errors.Is(err, stores.ErrNotFound) {
		t.Error("what there is not goes on:", err)
	}
	if err := b.Put(ctx, ID(1), Entry("u", "", "end")); err != nil {
		t.Fatal(err)
	}
	if names := namesOf(t, b, 3); names != "" {
		t.Errorf("the last event is missing, but %q", names)
	}
	last := someEvents(3, "d")
	last.Over = true
	if _, err := b.Continue(ctx, "u", ID(1), last); err != nil {
		t.Error(err)
	}
	check := func(b stores.Background) {
		t.Helper()
		e, err := b.Get(ctx, "u", ID(1))
		if err != nil || e.Running || string(e.Response) != `{"id":"<end>"}` {
			t.Fatalf("%+v, %v", e, err)
		}
		if all, rest, after := namesOf(t, b, 0), namesOf(t, b, 4), namesOf(t, b, 9); all != "abcd." || rest != "." || after != "." {
			t.Errorf("%q, %q, %q", all, rest, after)
		}
	}
	check(b)
	b = tested.other(t)
	check(b)
	if err := b.Delete(ctx, "u", ID(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Events(ctx, "u", ID(1), 0, 1<<20); !errors.Is(err, stores.ErrNotFound) {
		t.Error("events of what was deleted:", err)
	}
}

// testLost checks that a response whose owner is gone has failed for everybody, and that later
// calls of the owner do not change that.
func testLost(t *testing.T, tested Engine) {
	b := tested.background()
	ctx := t.Context()
	if err := b.Begin(ctx, ID(1), Begun("u")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Continue(ctx, "u", ID(1), someEvents(0, "a")); err != nil {
		t.Fatal(err)
	}
	owner := b
	if b = tested.other(t); owner != b {
		if tested.Shared {
			if e, err := b.Get(ctx, "u", ID(1)); err != nil || !e.Running {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	}
	tested.expireLeases()
	e, err := b.Get(ctx, "u", ID(1))
	if err != nil || e.Running || !strings.Contains(string(e.Response), `"status":"failed"`) {
		t.Fatalf("%s, %v", e.Response, err)
	}
	if names := namesOf(t, b, 0); names != "aresponse.failed." {
		t.Errorf("%q", names)
	}
	for _, from := range []int64{2, 9} { // a client that has read one event more than was stored, and one that has read more
		ahead, err := b.Events(ctx, "u", ID(1), from, 1<<20)
		if err != nil || len(ahead.Events) != 1 || !strings.Contains(string(ahead.Events[0].Data), fmt.Sprintf(`"sequence_number":%d,`, from)) || !ahead.Over {
			t.Errorf("from %d: %s, %v", from, ahead.Events, err)
		}
	}
	for _, node := range []stores.Background{owner, b} {
		_, err := node.Continue(ctx, "u", ID(1), someEvents(1, "b"))
		if putErr := node.Put(ctx, ID(1), Entry("u", "", "end")); err == nil || putErr == nil {
			t.Errorf("it goes on: %v, %v", err, putErr)
		}
	}
	if again, err := b.Get(ctx, "u", ID(1)); err != nil || string(again.Response) != string(e.Response) {
		t.Errorf("%s became %s, %v", e.Response, again.Response, err)
	}
}

// testLostWhileRead checks that a reader of events gets the failure when the owner is gone.
func testLostWhileRead(t *testing.T, tested Engine) {
	b := tested.background()
	if err := b.Begin(t.Context(), ID(1), Begun("u")); err != nil {
		t.Fatal(err)
	}
	b = tested.other(t)
	tested.expireLeases()
	names := ""
	for range 3 { // the first read stores that the response has failed
		if names = namesOf(t, b, 0); names != "" {
			break
		}
	}
	if names != "response.failed." {
		t.Errorf("%q", names)
	}
}

// testGap checks that a reader of events gets an error where events are missing.
func testGap(t *testing.T, tested Engine) {
	b := tested.background()
	if err := b.Begin(t.Context(), ID(1), Begun("u")); err != nil {
		t.Fatal(err)
	}
	for _, events := range []stores.Events{someEvents(0, "a"), someEvents(2, "c")} {
		if _, err := b.Continue(t.Context(), "u", ID(1), events); err != nil {
			t.Fatal(err)
		}
	}
	if first, next := namesOf(t, b, 0), namesOf(t, b, 1); first != "a" || next != "dropped" {
		t.Errorf("%q, %q", first, next)
	}
}

// testWatch checks that a change at one node closes the channel of Watch at another node long
// before WatchTime. If the store is not shared, it checks only that the channel is closed.
func testWatch(t *testing.T, tested Engine) {
	b := tested.background()
	if !tested.Shared {
		select {
		case <-b.Watch(ID(1)):
		case <-time.After(10 * stores.WatchTime):
			t.Error("no look is due")
		}
		return
	}
	ctx := t.Context()
	if err := b.Begin(ctx, ID(1), Begun("u")); err != nil {
		t.Fatal(err)
	}
	reader := tested.other(t)
	noticesChange := func(at stores.Background, change func() error) bool {
		changed, began := at.Watch(ID(1)), time.Now()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		<-changed
		return time.Since(began) < stores.WatchTime/2
	}
	n := int64(0)
	for deadline := time.Now().Add(20 * time.Second); !noticesChange(reader, func() error { // noticesChange returns false until reader has subscribed
		n++
		_, err := b.Continue(ctx, "u", ID(1), someEvents(n-1, "e"))
		return err
	}); {
		if time.Now().After(deadline) {
			t.Fatal("the reader hears nothing")
		}
	}
	for deadline := time.Now().Add(20 * time.Second); !noticesChange(b, func() error { return reader.Cancel(ctx, "u", ID(1)) }); {
		if time.Now().After(deadline) {
			t.Fatal("the owner hears nothing")
		}
	}
	if cancelled, err := b.Continue(ctx, "u", ID(1), stores.Events{First: n}); !cancelled || err != nil {
		t.Error(cancelled, err)
	}
	if err := reader.Cancel(ctx, "v", ID(1)); !errors.Is(err, stores.ErrNotFound) {
		t.Error("another user cancels:", err)
	}
}

// testManyEvents checks that all events of a long response are read, piece by piece.
func testManyEvents(t *testing.T, tested Engine) {
	b := tested.background()
	if err := b.Begin(t.Context(), ID(1), Begun("u")); err != nil {
		t.Fatal(err)
	}
	var sent, got []string
	for i := range 300 {
		sent = append(sent, fmt.Sprintf("e%d", i))
	}
	large := someEvents(0, sent...)
	for i := range large.Events {
		large.Events[i].Data = slices.Repeat([]byte("x"), 10_000)
	}
	large.Over = true
	if _, err := b.Continue(t.Context(), "u", ID(1), large); err != nil {
		t.Fatal(err)
	}
	for {
		const size, limit = 10_000 + stores.ItemOverhead, 64 << 10
		if alone, err := b.Events(t.Context(), "u", ID(1), int64(len(got)), size-1); err != nil || len(alone.Events) > 0 || alone.Larger != size || alone.Over {
			t.Fatalf("below the size of an event: %d events, %d, %t, %v", len(alone.Events), alone.Larger, alone.Over, err)
		}
		events, err := b.Events(t.Context(), "u", ID(1), int64(len(got)), limit)
		if err != nil || len(events.Events) == 0 || len(events.Events) > limit/size || events.Larger != 0 {
			t.Fatal(len(got), err)
		}
		for _, e := range events.Events {
			got = append(got, e.Name)
		}
		if events.Over {
			break
		}
	}
	if !slices.Equal(got, sent) {
		t.Errorf("%d of %d events: %q", len(got), len(sent), got)
	}
}

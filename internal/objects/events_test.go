package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/responseid"
	"github.com/caddy-codex/caddy-codex/internal/stores"
)

// TestFollowersHold checks that the events which the followers of a user have read are claimed, also
// when the logs have dropped them, that another user is served meanwhile, and that a follower without
// memory goes on when there is some.
func TestFollowersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers, size = 1024, 10 << 10
		budget := claims.NewBudget(1<<20, size, claims.NewCrowd(func() bool { return true }))
		logs := newLogs(logLimits{LogBytes: 2 * size, TotalBytes: 16 * size, KeepTime: time.Hour})
		var held [followers][]stores.Event
		var claimed [followers]*claims.Claim
		served, waits := 0, followers
		var wait <-chan struct{}
		for i := range followers {
			l := logs.Open("a", fmt.Sprint(i))
			_ = l.Append("e", make([]byte, size))
			claimed[i] = budget.Claim("a")
			events, changed, err := l.Next(0, claimed[i])
			if held[i] = events; err != nil {
				t.Fatal(err)
			}
			if len(events) > 0 {
				served++
			} else if wait == nil {
				waits, wait = i, changed
			}
		}
		live := int64(0)
		for _, events := range held {
			live += sizeOf(events...)
		}
		if live != budget.Held() || live > 1<<19 || live < 1<<18 || served == followers {
			t.Errorf("%d followers keep %d bytes of %d, and %d are claimed", served, live, 1<<20, budget.Held())
		}
		l := logs.Open("b", "of b")
		_ = l.Append("e", make([]byte, size))
		other := budget.Claim("b")
		if events, _, err := l.Next(0, other); len(events) != 1 || err != nil {
			t.Errorf("another user gets %d events, %v", len(events), err)
		}
		other.Release()
		if _, err := claimed[0].Keep(nil); !err || waits == followers {
			t.Fatal("nobody waits")
		}
		claimed[0].Release()
		<-wait
		again := logs.Open("a", "again")
		_ = again.Append("e", make([]byte, size))
		if events, _, err := again.Next(0, claimed[waits]); len(events) != 1 || err != nil {
			t.Errorf("there is memory again: %d events, %v", len(events), err)
		}
		for _, c := range claimed {
			c.Release()
		}
		if budget.Held() != 0 {
			t.Errorf("%d bytes are left", budget.Held())
		}
	})
}

// TestBatch checks that a reader gets few bytes at once, or one event.
func TestBatch(t *testing.T) {
	l := newLogs(eventLimits).Open("ann", "a")
	sizes := []int{1, 2 * maxBatch, maxBatch / 2, maxBatch / 4, maxBatch / 2, 1}
	for _, size := range sizes {
		_ = l.Append("e", make([]byte, size))
	}
	l.End()
	claim, from := unlimited(), int64(0)
	for _, want := range []int{1, 1, 2, 2, 0} {
		events, _, err := l.Next(from, claim)
		if from += int64(len(events)); len(events) != want || err != nil || claim.Size() != sizeOf(events...) {
			t.Errorf("%d events, want %d, before %d; %d bytes are claimed; %v", len(events), want, from, claim.Size(), err)
		}
	}
}

// storedDouble is a store with events of some sizes.
type storedDouble struct {
	*double
	sizes []int
	claim *claims.Claim
	reads int
	fault string
}

func (d *storedDouble) Get(context.Context, string, string) (*stores.Entry, error) {
	return &stores.Entry{User: "u"}, nil
}

func (d *storedDouble) Events(_ context.Context, _, _ string, from, limit int64) (stores.Events, error) {
	d.reads++
	if d.claim.Size() < 2*limit {
		d.fault = fmt.Sprintf("%d bytes are asked for, and %d claimed", limit, d.claim.Size())
	}
	events, size := stores.Events{First: from}, int64(0)
	for _, n := range d.sizes[from:] {
		if size += int64(n) + stores.ItemOverhead; size > limit {
			if len(events.Events) == 0 {
				events.Larger = size
			}
			return events, nil
		}
		events.Events = append(events.Events, stores.Event{Name: "e", Data: make([]byte, n)})
	}
	events.Over = true
	return events, nil
}

// TestStoredEventsHold checks that events are read from a store only into claimed memory, and that a
// reader without memory for an event does not ask the store for it again and again.
func TestStoredEventsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := claims.NewBudget(8<<20, 0, claims.NewCrowd(nil))
		store := &storedDouble{double: new(double), sizes: []int{10, 2 << 20, 10, 40 << 10, 40 << 10, 10}, claim: budget.Claim("u")}
		o := &Objects{Store: store, Running: NewRunning(), Logger: slog.New(slog.DiscardHandler), User: func(*http.Request) string { return "u" }}
		others := budget.Claim("u")
		if !others.Grow(5 << 20) {
			t.Fatal("there is no memory")
		}
		events, apiErr := o.Events(as("u"), responseid.Prefix+responseid.NewSuffix(time.Now()), 0, store.claim)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		time.AfterFunc(time.Minute, others.Release)
		got, waited := 0, time.Now()
		for {
			batch, changed, err := events.Next(int64(got), store.claim)
			if err != nil {
				t.Fatal(err)
			}
			if got += len(batch); len(batch) > 0 && store.claim.Size() < sizeOf(batch...) {
				t.Errorf("%d bytes are kept, %d claimed", sizeOf(batch...), store.claim.Size())
			}
			if len(batch) == 0 && changed == nil {
				break
			}
			if changed != nil {
				<-changed
			}
		}
		if took := time.Since(waited); got != len(store.sizes) || store.reads > 6 || took < time.Minute || took > time.Minute+claimPause || store.fault != "" {
			t.Errorf("%d events in %d reads after %s; %s", got, store.reads, took, store.fault)
		}
		if store.claim.Release(); budget.Held() != 0 {
			t.Errorf("%d bytes are left", budget.Held())
		}
	})
}

// TestInProgressHeld checks that a running response is encoded for a reader only if there is memory.
func TestInProgressHeld(t *testing.T) {
	o := &Objects{Running: NewRunning(), User: func(r *http.Request) string { return r.Header.Get("User") }, Store: new(storedDouble)}
	id, made := responseid.Prefix+responseid.NewSuffix(time.Now()), 0
	_, end := o.Running.Begin(t.Context(), Response{ID: id, Entry: &stores.Entry{User: "ann"}, Stored: true, Size: 100, InProgress: func() json.RawMessage {
		made++
		return json.RawMessage("{}")
	}})
	defer end()
	no := func(bytes int64) *apierror.Error {
		if bytes != 100 {
			t.Errorf("%d bytes are to be claimed", bytes)
		}
		return apierror.AnswerMemory()
	}
	if _, apiErr := o.Response(as("ann"), id, no); apiErr == nil || made > 0 {
		t.Errorf("%v, encoded %d times", apiErr, made)
	}
	if _, apiErr := o.InputItems(as("ann"), id, free); apiErr != nil || made > 0 {
		t.Errorf("the input: %v, encoded %d times", apiErr, made)
	}
	if body, apiErr := o.Response(as("ann"), id, free); apiErr != nil || string(body) != "{}" {
		t.Errorf("%s, %v", body, apiErr)
	}
}

// failingEvents is a store whose events cannot be read for a while.
type failingEvents struct {
	double
	failsFrom, failsUntil time.Time
}

func (f *failingEvents) Events(_ context.Context, _, _ string, from, _ int64) (stores.Events, error) {
	if now := time.Now(); !now.Before(f.failsFrom) && now.Before(f.failsUntil) {
		return stores.Events{}, fmt.Errorf("%w: for a while", stores.ErrUnavailable)
	}
	return stores.Events{First: from}, nil
}

// TestEventsOutage checks that a reader of events outlives a short outage of the store, and ends in a
// long one.
func TestEventsOutage(t *testing.T) {
	for outage, ends := range map[time.Duration]bool{maxOutage / 2: false, 2 * maxOutage: true} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now().Add(time.Hour)
			store := &failingEvents{failsFrom: begin, failsUntil: begin.Add(outage)}
			events := &storedEvents{store: store, ctx: t.Context()}
			for time.Since(begin) < 3*maxOutage {
				_, changed, err := events.Next(0, unlimited())
				if err == nil {
					<-changed
					continue
				}
				if after := time.Since(begin); !ends || !errors.Is(err, stores.ErrUnavailable) || after < maxOutage || after > maxOutage+2*stores.WatchTime {
					t.Errorf("an outage of %s: after %s: %v", outage, after, err)
				}
				return
			}
			if ends {
				t.Errorf("an outage of %s ends no reader", outage)
			}
		})
	}
}

package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/store"
)

// TestFollowersHold checks that the events which the followers of a user have read are claimed, also
// when the logs have dropped them, that another user is served meanwhile, and that a follower without
// memory goes on when there is some.
func TestFollowersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const followers, size = 1024, 10 << 10
		budget := claims.NewBudget(1<<20, size, claims.NewCrowd(func() bool { return true }))
		logs := newLogs(logLimits{LogBytes: 2 * size, TotalBytes: 16 * size, KeepTime: time.Hour})
		var held [followers][]Event
		var claimed [followers]*claims.Claim
		served, waits := 0, followers
		var wait <-chan struct{}
		for i := range followers {
			l := logs.Open("a", fmt.Sprint(i))
			l.Append("e", make([]byte, size))
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
		l.Append("e", make([]byte, size))
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
		again.Append("e", make([]byte, size))
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
		l.Append("e", make([]byte, size))
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

// storedDouble is an engine with events of some sizes.
type storedDouble struct {
	*double
	sizes []int
	claim *claims.Claim
	reads int
	fault string
}

func (d *storedDouble) Read(_ context.Context, _, id string, q store.Query) ([]store.Page, error) {
	if q.Part == store.Value {
		return []store.Page{{ID: id, About: "{}", Next: 1, Records: [][]byte{[]byte("{}")}}}, nil
	}
	d.reads++
	if d.claim.Size() < 2*q.Limit {
		d.fault = fmt.Sprintf("%d bytes are asked for, and %d claimed", q.Limit, d.claim.Size())
	}
	page, size := store.Page{ID: id, About: "{}", Next: int64(len(d.sizes)), EndedBy: "o"}, int64(0)
	for _, n := range d.sizes[q.From:] {
		record := append([]byte("e "), make([]byte, n)...)
		if size += int64(len(record)) + store.RecordOverhead; size > q.Limit {
			if len(page.Records) == 0 {
				page.Larger = size
			}
			break
		}
		page.Records = append(page.Records, record)
	}
	return []store.Page{page}, nil
}

// TestStoredEventsHold checks that events are read from a store only into claimed memory, and that a
// reader without memory for an event does not ask the store for it again and again.
func TestStoredEventsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := claims.NewBudget(8<<20, 0, claims.NewCrowd(nil))
		engine := &storedDouble{double: new(double), sizes: []int{10, 2 << 20, 10, 40 << 10, 40 << 10, 10}, claim: budget.Claim("u")}
		o := objectsIn(storeIn(engine))
		others := budget.Claim("u")
		if !others.Grow(5 << 20) {
			t.Fatal("there is no memory")
		}
		events, apiErr := o.Events(as("u"), id(1), 0, engine.claim)
		if apiErr != nil {
			t.Fatal(apiErr)
		}
		time.AfterFunc(time.Minute, others.Release)
		got, waited := 0, time.Now()
		for {
			batch, changed, err := events.Next(int64(got), engine.claim)
			if err != nil {
				t.Fatal(err)
			}
			if got += len(batch); len(batch) > 0 && engine.claim.Size() < sizeOf(batch...) {
				t.Errorf("%d bytes are kept, %d claimed", sizeOf(batch...), engine.claim.Size())
			}
			if len(batch) == 0 && changed == nil {
				break
			}
			if changed != nil {
				<-changed
			}
		}
		if took := time.Since(waited); got != len(engine.sizes) || engine.reads > 6 || took < time.Minute || took > time.Minute+claimPause || engine.fault != "" {
			t.Errorf("%d events in %d reads after %s; %s", got, engine.reads, took, engine.fault)
		}
		if engine.claim.Release(); budget.Held() != 0 {
			t.Errorf("%d bytes are left", budget.Held())
		}
	})
}

// TestInProgressHeld checks that a running response is encoded for a reader only if there is memory.
func TestInProgressHeld(t *testing.T) {
	o, made := objectsIn(storeIn(new(storedDouble))), 0
	_, end := o.Running.Begin(t.Context(), Response{ID: id(1), Entry: &Entry{User: "ann"}, Stored: true, Size: 100, InProgress: func() json.RawMessage {
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
	if _, apiErr := o.Response(as("ann"), id(1), no); apiErr == nil || made > 0 {
		t.Errorf("%v, encoded %d times", apiErr, made)
	}
	if _, apiErr := o.InputItems(as("ann"), id(1), free); apiErr != nil || made > 0 {
		t.Errorf("the input: %v, encoded %d times", apiErr, made)
	}
	if body, apiErr := o.Response(as("ann"), id(1), free); apiErr != nil || string(body) != "{}" {
		t.Errorf("%s, %v", body, apiErr)
	}
}

// failingEvents is an engine whose events cannot be read for a while.
type failingEvents struct {
	double
	failsFrom, failsUntil time.Time
}

func (f *failingEvents) Read(context.Context, string, string, store.Query) ([]store.Page, error) {
	if now := time.Now(); !now.Before(f.failsFrom) && now.Before(f.failsUntil) {
		return nil, fmt.Errorf("%w: for a while", store.ErrUnavailable)
	}
	return []store.Page{{Leased: true}}, nil
}

// TestEventsOutage checks that a reader of events outlives a short outage of the store, and ends in a
// long one.
func TestEventsOutage(t *testing.T) {
	for outage, ends := range map[time.Duration]bool{maxOutage / 2: false, 2 * maxOutage: true} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now().Add(time.Hour)
			engine := &failingEvents{failsFrom: begin, failsUntil: begin.Add(outage)}
			events := &storedEvents{store: storeIn(engine), ctx: t.Context()}
			for time.Since(begin) < 3*maxOutage {
				_, changed, err := events.Next(0, unlimited())
				if err == nil {
					<-changed
					continue
				}
				if after := time.Since(begin); !ends || !errors.Is(err, store.ErrUnavailable) || after < maxOutage || after > maxOutage+2*store.WatchTime {
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

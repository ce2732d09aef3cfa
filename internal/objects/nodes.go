package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/store"
)

const (
	// gatherTime is how long events are collected before they are stored.
	gatherTime = 100 * time.Millisecond
	// retryPause is the pause before a store that has failed is tried again.
	retryPause = time.Second
	// maxGathered bounds the events that one call of the store stores, in bytes. A single larger
	// event is stored alone.
	maxGathered = 1 << 20
)

// backgroundStore returns the store if other nodes can find running responses in it, else nil.
func (o *Objects) backgroundStore() *Store {
	if o.Store == nil || !o.Store.engine.Lasts() {
		return nil
	}
	return o.Store
}

// Begin stores a background response when it begins, so that other nodes and later processes find it.
func (o *Objects) Begin(ctx context.Context, response Response) error {
	stored := o.backgroundStore()
	if stored == nil {
		return nil
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	return stored.Put(ctx, response.ID, response.runningEntry())
}

func (r Response) runningEntry() *Entry {
	entry := *r.Entry
	entry.Response, entry.Running = r.InProgress(), true
	return &entry
}

// Continue starts a goroutine that stores the events of a response. The goroutine calls stop if
// another node wants the response cancelled, or counts the response as lost. The caller calls end
// once the response has ended; end waits until the last events are stored.
func (o *Objects) Continue(response Response, log *Log, stop context.CancelCauseFunc) (end func()) {
	if o.backgroundStore() == nil {
		return func() {}
	}
	c := &eventStorer{objects: o, response: response, log: log, stop: stop}
	ctx, cancel := context.WithCancel(context.Background())
	var storing sync.WaitGroup
	storing.Go(func() { c.run(ctx) })
	return func() {
		cancel()
		storing.Wait()
		ctx, cancel := withStoreTimeout(context.Background())
		defer cancel()
		c.logEnded = true
		for !c.done && ctx.Err() == nil {
			c.storeNext(ctx)
		}
	}
}

// eventStorer stores the events of a background response. While the store is slow, it keeps parts of the
// body and of the answer. It needs no claim of its own for them: the response claims their memory until
// the eventStorer ends.
type eventStorer struct {
	objects  *Objects
	response Response
	log      *Log
	stop     context.CancelCauseFunc

	nextEvent int64 // the number of the first event that is not stored
	logEnded  bool  // the log gets no more events
	done      bool  // there is nothing more to store
}

// run stores events as they come, until ctx ends or nothing is left to store. It also calls the
// store without new events, whenever another node may have cancelled the response.
func (c *eventStorer) run(ctx context.Context) {
	for ctx.Err() == nil && !c.done {
		changed := c.objects.Store.engine.Watch(c.response.ID)
		if events, more, _ := c.log.next(c.nextEvent, 1); len(events) == 0 { // limit 1: only to look
			select {
			case <-ctx.Done():
			case <-changed:
			case <-more: // if more is nil, this case is never ready: the log has ended, or has dropped events
			}
		}
		pause(ctx, gatherTime)
		limited, cancel := withStoreTimeout(ctx)
		c.storeNext(limited)
		cancel()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// storeNext stores the next events. If there are none, it calls the store nevertheless: a response
// that is not continued counts as lost.
func (c *eventStorer) storeNext(ctx context.Context) {
	events := c.nextEvents()
	cancelled, err := c.objects.Store.Continue(ctx, c.response.Entry.User, c.response.ID, events)
	if cancelled {
		c.stop(apierror.ErrCancelled)
	}
	switch {
	case err == nil:
		c.nextEvent, c.done = c.nextEvent+int64(len(events.Events)), events.Over
	case errors.Is(err, store.ErrEnded), errors.Is(err, store.ErrNotFound) && c.objects.Running.isOver(c.response.ID):
		c.done = true // other nodes count the response as lost, or the response has ended and was deleted
		c.stop(apierror.ErrCancelled)
	case errors.Is(err, store.ErrNotFound): // the store was emptied
		c.nextEvent = 0
		err = c.objects.Store.Put(ctx, c.response.ID, c.response.runningEntry())
	}
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			c.objects.Logger.WarnContext(ctx, "the store of responses failed", "response", c.response.ID, "error", err.Error())
		}
		pause(ctx, retryPause)
	}
}

func (c *eventStorer) nextEvents() EventPage {
	logged, more, err := c.log.next(c.nextEvent, maxGathered)
	switch {
	case err != nil && c.logEnded: // the gap shows readers that some events are missing, however many they have read
		return EventPage{First: math.MaxUint32, Over: true}
	case err != nil: // the log has dropped events, so only the lease is renewed until the end
		return EventPage{First: c.nextEvent}
	}
	return EventPage{First: c.nextEvent, Events: logged, Over: len(logged) == 0 && more == nil}
}

// runningState is the state in the JSON of a response that still runs. lostState replaces it if the
// owner of the response was lost.
var (
	runningState = []byte(`"status":"in_progress","completed_at":null,"error":null`)
	lostState    = []byte(`"status":"failed","completed_at":null,"error":{"code":"server_error","message":` +
		`"The server that made the response has ended before the response did, or could not store it. Please try again."}`)
)

// Lost is called for a response whose owner was lost. It returns the JSON of the failed response, and the
// event of the failure with this number. The parameter response is the JSON of the response, which either
// still says that the response runs, or is already that of the failed response (for lostEvent).
func Lost(response json.RawMessage, number int64) (failed json.RawMessage, last Event) {
	failed = bytes.Replace(response, runningState, lostState, 1)
	return failed, Event{Name: "response.failed", Data: fmt.Appendf(nil, `{"type":"response.failed","sequence_number":%d,"response":%s}`, number, failed)}
}

// lostOwner is the owner of lost responses.
const lostOwner = "lost"

// markLost stores that a response has failed, since its owner does not continue it. It does nothing if the
// response has ended or its owner continues it. It stores first the last event, then the failed response.
// If this process ends between these two steps, the response still counts as running, so its next reader
// takes both steps again. The store then skips the second event: nothing follows the last event.
func (s *Store) markLost(ctx context.Context, user, id string) error {
	pages, err := s.engine.Read(ctx, user, id, store.Query{Part: store.Events, From: math.MaxInt32}) // only for Next
	if err != nil {
		return err
	}
	r, values, err := s.readAll(ctx, user, id, store.Value)
	defer r.release()
	if err != nil || !r.about.Running || r.page.Leased {
		return err
	}
	number := pages[0].Next
	failed, last := Lost(values[0], number)
	_, err = s.engine.Append(ctx, user, id, &store.Append{
		Part: store.Events, First: number, Records: [][]byte{last.record()}, Owner: lostOwner, Over: true,
	})
	if err == nil {
		r.about.Running = false
		err = s.engine.Put(ctx, user, id, &store.Put{About: r.about.encode(), Value: failed, Keep: true, Owner: lostOwner})
	}
	if errors.Is(err, store.ErrEnded) {
		return nil // the owner has continued the response meanwhile
	}
	return err
}

// lostEvent returns the last event of a lost response, for a client that wants an event after all stored
// ones. Such a client has read events that were never stored, so it knows another event with the number of
// the stored last event. The returned event has the number that the client wants: the parameter from.
func (s *Store) lostEvent(ctx context.Context, user, id string, from int64) (EventPage, error) {
	e, err := s.GetObject(ctx, user, id)
	if err != nil {
		return EventPage{}, err
	}
	defer e.Release()
	_, last := Lost(e.Response, from)
	return EventPage{First: from, Events: []Event{last}, Over: true}, nil
}

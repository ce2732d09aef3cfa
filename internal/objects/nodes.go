package objects

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/stores"
)

const (
	// gather is how long events are collected before they are stored.
	gather = 100 * time.Millisecond
	// retry is the pause before a store that has failed is tried again.
	retry = time.Second
	// maxGathered bounds the events that are stored at once, in bytes. A single larger event is
	// stored alone.
	maxGathered = 1 << 20
)

// background returns the store if other nodes can find running responses in it, and otherwise nil.
func (o *Objects) background() stores.Background {
	store, _ := o.Store.(stores.Background)
	return store
}

// Begin stores a background response when it begins, for other nodes and later processes.
func (o *Objects) Begin(ctx context.Context, response Response) error {
	store := o.background()
	if store == nil {
		return nil
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	return store.Begin(ctx, response.ID, response.begun())
}

// begun returns the entry of a response that is running.
func (r Response) begun() *stores.Entry {
	begun := *r.Entry
	begun.Response = r.InProgress()
	return &begun
}

// Continue begins to store the events of a response, on its own goroutine. It calls stop if another
// node wants the response cancelled. Once the response has ended, the caller calls end, which waits
// until the last events are stored.
func (o *Objects) Continue(response Response, log *Log, stop context.CancelCauseFunc) (end func()) {
	store := o.background()
	if store == nil {
		return func() {}
	}
	c := &continued{o: o, nodes: store, response: response, log: log, stop: stop}
	ctx, cancel := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() { c.run(ctx) })
	return func() {
		cancel()
		keeper.Wait()
		ctx, cancel := timed(context.Background())
		defer cancel()
		c.ended = true
		for !c.over && ctx.Err() == nil {
			c.store(ctx)
		}
	}
}

// continued is a background response whose events are being stored.
type continued struct {
	o        *Objects
	nodes    stores.Background
	response Response
	log      *Log
	stop     context.CancelCauseFunc

	next  int64 // the number of the first event that is not stored
	ended bool  // nothing more is logged
	over  bool  // nothing more is to be stored
}

// run stores events as they come, until ctx ends. If there are no new events, it still reads the
// store whenever another node may have cancelled the response.
func (c *continued) run(ctx context.Context) {
	for ctx.Err() == nil && !c.over {
		changed := c.nodes.Watch(c.response.ID)
		if events, more, _ := c.log.Next(c.next); len(events) == 0 {
			select {
			case <-ctx.Done():
			case <-changed:
			case <-more: // nil at the end and once events were dropped: then it is never ready
			}
		}
		pause(ctx, gather)
		limited, cancel := timed(ctx)
		c.store(limited)
		cancel()
	}
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// store stores the next events, or only that the response is still running.
func (c *continued) store(ctx context.Context) {
	events := c.events()
	cancelled, err := c.nodes.Continue(ctx, c.response.Entry.User, c.response.ID, events)
	if cancelled {
		c.stop(responses.ErrCancelled)
	}
	switch {
	case err == nil:
		c.next, c.over = c.next+int64(len(events.Events)), events.Over
	case errors.Is(err, stores.ErrEnded), errors.Is(err, stores.ErrNotFound) && c.o.Running.isOver(c.response.ID):
		c.over = true // other nodes count it as lost, or it has ended and was deleted
		c.stop(responses.ErrCancelled)
	case errors.Is(err, stores.ErrNotFound): // the store was emptied
		c.next = 0
		err = c.nodes.Begin(ctx, c.response.ID, c.response.begun())
	}
	c.o.logFailure(ctx, c.response.ID, err)
	if err != nil {
		pause(ctx, retry)
	}
}

// events returns the next events to store.
func (c *continued) events() stores.Events {
	logged, more, err := c.log.Next(c.next)
	switch {
	case err != nil && c.ended: // readers have to see that some events are missing
		return stores.Events{First: c.next + 1, Events: []stores.Event{{Name: "missing"}}, Over: true}
	case err != nil:
		return stores.Events{First: c.next}
	}
	size := 0
	for i, e := range logged {
		if size += len(e.Data); i > 0 && size > maxGathered {
			logged = logged[:i]
			break
		}
	}
	return stores.Events{First: c.next, Events: logged, Over: len(logged) == 0 && more == nil}
}

// logFailure logs that a response could not be continued in the store.
func (o *Objects) logFailure(ctx context.Context, id string, err error) {
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		o.Logger.WarnContext(ctx, "the store of responses failed", "response", id, "error", err.Error())
	}
}

// endLag is the pause between two checks whether another node has ended a response.
const endLag = 250 * time.Millisecond

// stopElsewhere asks the node that makes a response to cancel the response, and waits until the
// response has ended.
func (o *Objects) stopElsewhere(ctx context.Context, user, id string) (*stores.Entry, error) {
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := o.background().Cancel(ctx, user, id); err != nil {
		return nil, err
	}
	for {
		e, err := o.Store.Get(ctx, user, id)
		if err != nil || !e.Running {
			return e, err
		}
		e.Release()
		select {
		case <-time.After(endLag):
		case <-ctx.Done():
			return nil, apierror.CancelPending(id)
		}
	}
}

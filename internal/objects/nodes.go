package objects

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

const (
	// cancelLag is how often a node looks whether another one wants its response cancelled.
	cancelLag = 2 * time.Second
	// claimEvery is after which time it renews its claim.
	claimEvery = 10 * time.Second
	// endLag is how often a node looks whether another one has cancelled a response.
	endLag = 250 * time.Millisecond
)

// nodes returns the store if other nodes share it, else nil.
func (o *Objects) nodes() *responsestore.Shared {
	nodes, _ := o.Store.(*responsestore.Shared)
	return nodes
}

// Claim stores a background response that begins, for other nodes and later processes.
func (o *Objects) Claim(ctx context.Context, response Response) error {
	nodes := o.nodes()
	if nodes == nil {
		return nil
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := nodes.Claim(ctx, response.ID); err != nil {
		return err
	}
	begun := *response.Entry
	begun.Running, begun.Response = true, response.InProgress()
	return nodes.Put(ctx, response.ID, &begun)
}

// KeepClaim renews the claim to a response, stores its events, and calls stop if another node
// wants it cancelled, until the response has ended and unclaim is called.
func (o *Objects) KeepClaim(id string, events *eventlog.Log, stop context.CancelCauseFunc) (unclaim func()) {
	nodes := o.nodes()
	if nodes == nil {
		return func() {}
	}
	writer := &eventWriter{nodes: nodes, id: id, log: events}
	ctx, cancel := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() {
		for claimed := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(cancelLag):
			}
			due := time.Since(claimed) >= claimEvery
			o.renew(ctx, nodes, id, due, stop)
			if due {
				claimed = time.Now()
			}
			o.store(ctx, writer)
		}
	})
	return func() {
		cancel()
		keeper.Wait()
		o.store(context.Background(), writer)
		ctx, cancel := timed(context.Background())
		defer cancel()
		if stored, err := nodes.Stored(ctx, id); !stored && err == nil { // it was deleted meanwhile
			o.logClaim(ctx, id, nodes.ForgetEvents(ctx, id))
		}
		o.logClaim(ctx, id, nodes.Unclaim(ctx, id))
	}
}

// store stores the events that there are now.
func (o *Objects) store(ctx context.Context, w *eventWriter) {
	ctx, cancel := timed(ctx)
	defer cancel()
	o.logClaim(ctx, w.id, w.write(ctx))
}

// renew looks whether a response is to be cancelled, and renews its claim if that is due.
func (o *Objects) renew(ctx context.Context, nodes *responsestore.Shared, id string, due bool, stop context.CancelCauseFunc) {
	ctx, cancel := timed(ctx)
	defer cancel()
	cancelled, err := nodes.Cancelled(ctx, id)
	if cancelled {
		stop(responses.ErrCancelled)
	}
	if err == nil && due {
		err = nodes.Claim(ctx, id)
	}
	o.logClaim(ctx, id, err)
}

// logClaim logs that the claim to a response could not be kept.
func (o *Objects) logClaim(ctx context.Context, id string, err error) {
	if err != nil && ctx.Err() != context.Canceled {
		o.Logger.WarnContext(ctx, "the store of responses failed", "response", id, "error", err.Error())
	}
}

// stopElsewhere asks the node that makes a response to cancel it, and waits for that.
func (o *Objects) stopElsewhere(ctx context.Context, user, id string) (*responsestore.Entry, error) {
	ctx, cancel := timed(ctx)
	defer cancel()
	if err := o.nodes().Cancel(ctx, id); err != nil {
		return nil, err
	}
	for {
		e, err := o.stored(ctx, user, id)
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

// stored reads a response from the store. If it has not ended, and no node makes it, it failed.
func (o *Objects) stored(ctx context.Context, user, id string) (*responsestore.Entry, error) {
	e, err := o.Store.Get(ctx, user, id)
	nodes := o.nodes()
	if err != nil || !e.Running || nodes == nil {
		return e, err
	}
	claimed, err := nodes.Claimed(ctx, id)
	if claimed {
		return e, nil
	}
	e.Release()
	if err != nil {
		return nil, err
	}
	if e, err = o.Store.Get(ctx, user, id); err != nil || !e.Running { // it may just have ended
		return e, err
	}
	lost := *e
	lost.Running, lost.Response = false, responses.Lost(e.Response)
	return &lost, nil
}

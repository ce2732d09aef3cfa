package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/responses"
	"github.com/caddy-codex/caddy-codex/internal/responsestore"
)

const (
	// cancelLag is how often the node that makes a response looks whether another one
	// wants it cancelled.
	cancelLag = 2 * time.Second
	// claimEvery is after how many of these times it renews its claim.
	claimEvery = 5
	// endLag is how often a node looks whether another one has cancelled a response.
	endLag = 250 * time.Millisecond
)

// nodes returns the store if other nodes share it, else nil.
func (g *Gateway) nodes() responsestore.Nodes {
	nodes, _ := g.opts.Responses.(responsestore.Nodes)
	return nodes
}

// claim stores a background response that begins, so that other nodes know it, and a later
// process that it has not ended.
func (g *Gateway) claim(ctx context.Context, form *responseForm) error {
	nodes := g.nodes()
	if nodes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := nodes.Claim(ctx, form.meta.ID); err != nil {
		return err
	}
	begun := *form.entry
	begun.Running, begun.Response = true, form.meta.InProgress()
	return nodes.Put(ctx, form.meta.ID, &begun)
}

// keepClaim renews the claim to a response, and calls stop if another node wants it
// cancelled, until the response has ended and unclaim is called.
func (g *Gateway) keepClaim(id string, stop context.CancelCauseFunc) (unclaim func()) {
	nodes := g.nodes()
	if nodes == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() {
		tick := time.NewTicker(cancelLag)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			g.renew(ctx, nodes, id, n%claimEvery == 0, stop)
		}
	})
	return func() {
		cancel()
		keeper.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		g.logClaim(ctx, id, nodes.Unclaim(ctx, id))
	}
}

// renew looks whether a response is to be cancelled, and renews its claim if that is due.
func (g *Gateway) renew(ctx context.Context, nodes responsestore.Nodes, id string, due bool, stop context.CancelCauseFunc) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	cancelled, err := nodes.Cancelled(ctx, id)
	if cancelled {
		stop(responses.ErrCancelled)
	}
	if err == nil && due {
		err = nodes.Claim(ctx, id)
	}
	g.logClaim(ctx, id, err)
}

// logClaim logs that the claim to a response could not be kept.
func (g *Gateway) logClaim(ctx context.Context, id string, err error) {
	if err != nil && ctx.Err() != context.Canceled {
		g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the store of responses failed",
			slog.String("response", id), slog.String("error", err.Error()))
	}
}

// settle completes an entry of a response that had not ended when it was stored. If its
// node goes on making it, it is as it was stored; if not, the response has failed. again
// reads the entry once more: the response may just have ended.
func (g *Gateway) settle(ctx context.Context, id string, e *responsestore.Entry, again func() (*responsestore.Entry, error)) (*responsestore.Entry, error) {
	nodes := g.nodes()
	if nodes == nil || !e.Running {
		return e, nil
	}
	claimed, err := nodes.Claimed(ctx, id)
	if claimed {
		return e, nil
	}
	e.Release()
	if err != nil {
		return nil, err
	}
	if e, err = again(); err != nil || !e.Running {
		return e, err
	}
	lost := *e
	lost.Running, lost.Response = false, responses.Lost(e.Response)
	return &lost, nil
}

// stopElsewhere asks the node that makes a response to cancel it, and waits for that.
func (g *Gateway) stopElsewhere(ctx context.Context, user, id string) (*responsestore.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := g.nodes().Cancel(ctx, id); err != nil {
		return nil, err
	}
	tick := time.NewTicker(endLag)
	defer tick.Stop()
	for {
		e, err := g.stored(ctx, user, id)
		if err != nil || !e.Running {
			return e, err
		}
		e.Release()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, apierror.CancelPending(id)
		}
	}
}

// stored reads a response from the store.
func (g *Gateway) stored(ctx context.Context, user, id string) (*responsestore.Entry, error) {
	read := func() (*responsestore.Entry, error) { return g.opts.Responses.Get(ctx, user, id) }
	e, err := read()
	if err != nil {
		return nil, err
	}
	return g.settle(ctx, id, e, read)
}

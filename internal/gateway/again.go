package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/threads"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// again starts the turn of a choice once more after it has failed before its first output, if
// that may help: with another login if this one is spent or signed out, or, once, if its provider
// has failed; on a fresh thread if it went on in a kept one, without the reasoning that the thread
// was given or with the instructions behind Codex's own prompt if the provider refuses these; and a
// few times after a short wait if the provider has failed. It reports false if the failure stands;
// then the error is the failure, or that of another login which ends sooner. Otherwise the error is
// why the turn could not be started.
func (g *Gateway) again(ctx context.Context, plan *prompt.Plan, c *choice, failure error) (started bool, err error) {
	// What they record matters to later requests, also if this one cannot be repeated.
	account, refused := c.login.Fail(failure), g.refused(c, failure)
	failing, rest := failures.FailedProvider(failure)
	failing = failing && !account
	if failing && c.first.IsZero() {
		c.login.Falter(failure, rest)
	}
	if !c.repeatable {
		return false, failure
	}
	if failing && !c.moved {
		c.moved = true
		if started, err = g.move(ctx, plan, c, failure); started {
			return true, err
		}
	}
	switch {
	case account:
		return g.move(ctx, plan, c, failure)
	case c.kept.resumed && !errors.Is(failure, turn.ErrShutdown):
		return true, g.startFresh(ctx, plan, c)
	case !refused && c.kept.unrestorable(failure):
		return true, g.startAt(ctx, c.place, plan, c)
	case refused:
		at := c.place
		at.Instructions.Append = true
		return true, g.startAt(ctx, at, plan, c)
	case c.parallel && failures.RejectsRequest(failure):
		at := c.place
		at.Serial = true
		c.serial = failure
		return true, g.startAt(ctx, at, plan, c)
	case c.kept.spare && !errors.Is(failure, turn.ErrShutdown) && !errors.Is(failure, turn.ErrIdle) && !errors.As(failure, new(*codexrpc.TurnError)):
		// A failure of the turn is the provider's, as is its silence: on another thread it
		// would say the same.
		return true, g.startFresh(ctx, plan, c)
	case errors.Is(failure, appserver.ErrSocketLimited):
		return true, g.startOverHTTP(ctx, plan, c)
	case c.retriable() && failures.IsTransient(failure):
		return g.retry(ctx, plan, c, failure)
	}
	return false, failure
}

// anotherFree reports whether there is another login that does not rest.
func (g *Gateway) anotherFree(than *loginstate.Login) bool {
	lease, err := g.upstream.Lease()
	if err != nil {
		return false
	}
	defer lease.Release()
	other, done := lease.Peek()
	defer done()
	_, rests := other.Login.Rests()
	return other.Login != than && !rests
}

const (
	// firstRetry is the wait before a turn is started again since the provider has failed. Each
	// later one is twice as long, up to longestRetry: the client repeats the request, too.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 2 * time.Second
)

// retry starts the turn of a choice again on a fresh thread, after a wait. It reports false, with
// the failure, if the client leaves meanwhile. If Codex has fallen back to HTTP, it asks over that
// at once: the provider is not to be asked more often than need be.
func (g *Gateway) retry(ctx context.Context, plan *prompt.Plan, c *choice, failure error) (started bool, err error) {
	timer := time.NewTimer(min(firstRetry<<min(c.retries, 8), longestRetry))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, failure
	}
	c.retries++
	if c.place.OverHTTP || c.thread.FellBack() {
		return true, g.startOverHTTP(ctx, plan, c)
	}
	return true, g.startFresh(ctx, plan, c)
}

// startOverHTTP starts the turn of a choice on a fresh thread of its process, without a WebSocket.
func (g *Gateway) startOverHTTP(ctx context.Context, plan *prompt.Plan, c *choice) error {
	at, err := g.placeOn(ctx, c.place.Process, plan)
	if err != nil {
		return err
	}
	at.OverHTTP = true
	return g.startAt(ctx, at, plan, c)
}

// startFresh starts the turn of a choice on a fresh thread of its process.
func (g *Gateway) startFresh(ctx context.Context, plan *prompt.Plan, c *choice) error {
	at, err := g.placeOn(ctx, c.place.Process, plan)
	if err != nil {
		return err
	}
	return g.startAt(ctx, at, plan, c)
}

// startAt starts the turn of a choice on a new thread at a place.
func (g *Gateway) startAt(ctx context.Context, at threads.Place, plan *prompt.Plan, c *choice) error {
	thread, err := g.startThread(ctx, at, plan, c)
	if err != nil {
		return err
	}
	c.thread.Close(nil)
	c.thread, c.place, c.parallel = thread, at, triesParallel(at, plan)
	c.kept.reset()
	return c.startTurn(ctx, plan)
}

// move starts the turn of a choice with another login that does not rest. It reports false
// if there is none; then the error is the failure, or that of another login which ends
// sooner.
func (g *Gateway) move(ctx context.Context, plan *prompt.Plan, c *choice, failure error) (started bool, err error) {
	if !c.movable {
		return false, failure
	}
	lease, err := g.upstream.Lease()
	if err != nil {
		return false, failure // it says more
	}
	defer lease.Release()
	before, closed := c.thread, c.closed
	if opened, other := g.openElsewhere(ctx, lease, plan, c); !opened {
		c.thread = before
		if other != nil {
			failure = loginstate.MoreHopeful(failure, other)
		}
		return false, failure
	}
	before.Close(closed)
	g.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "a turn has moved to another login")
	c.kept.reset()
	return true, c.startTurn(ctx, plan)
}

// openElsewhere starts a thread of a choice on another process, whose login does not rest.
// It reports false if there is none, with the failure of a login that rests or of a process
// that is about to start again, or if that fails.
func (g *Gateway) openElsewhere(ctx context.Context, lease Lease, plan *prompt.Plan, c *choice) (opened bool, other error) {
	avoid := []*appserver.Process{c.place.Process}
	for range lease.Len() {
		picked, done := lease.Pick(avoid...)
		if picked.Rests != nil || slices.Contains(avoid, picked.Process) || picked.Process.Status().Final {
			done()
			return false, cmp.Or(other, picked.Rests)
		}
		if picked.Login == c.login { // another process of the same login
			done()
			avoid = append(avoid, picked.Process)
			continue
		}
		err := g.openThread(ctx, picked, plan, c)
		if err == nil {
			c.use(lease, picked.Login, done)
			return true, nil
		}
		done()
		if !isGone(err) || ctx.Err() != nil {
			return false, nil
		}
		if late, ok := errors.AsType[*appserver.NotReadyError](err); ok && !late.Final {
			other = err
		}
		avoid = append(avoid, picked.Process)
	}
	return false, other
}

// use records the login of a choice's process, which the choice holds until done.
func (c *choice) use(lease Lease, login *loginstate.Login, done func()) {
	c.live.Use(c.place.Process)
	c.login, c.movable, c.closed = login, lease.Len() > 1, done
	if tried := login.Try(); tried != nil {
		c.closed = func() {
			tried()
			done()
		}
	}
}

// refused reports whether a turn has failed because the provider refuses its
// instructions. It records the refusal for the login.
func (g *Gateway) refused(c *choice, failure error) bool {
	if g.opts.Instructions != InstructionsAuto || c.place.Instructions.Append || !failures.RefusesInstructions(failure) {
		return false
	}
	if c.place.Conn.InstructionsRefused(c.place.Model) {
		g.opts.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return true
}

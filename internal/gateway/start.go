package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// choice is one of the turns of a request, on a thread of its own.
type choice struct {
	index   int
	options turn.Options
	place   place
	// repeatable says that the turn may have to be started once more.
	repeatable bool
	thread     *codexrpc.Thread
	machine    *turn.Machine
	closed     func() // to be called once the thread is unloaded
	usage      codexrpc.Usage
	report     turn.Report // once the turn has ended for its client
	first      time.Time   // when its first output came
}

// newChoices are the choices of a request, none of them started.
func newChoices(req *request) []*choice {
	choices := make([]*choice, req.choices)
	for i := range choices {
		options := req.options
		options.Choice = i
		choices[i] = &choice{index: i, options: options, machine: turn.New(options)}
	}
	return choices
}

// closeAll lets the app-server unload the threads, in the background. A turn
// that still runs is interrupted.
func closeAll(choices []*choice) {
	for _, c := range choices {
		if c.thread != nil {
			c.thread.Close(c.closed)
		}
	}
}

// start starts the turns of all choices, side by side. They are to be closed
// also if it fails: some may have started.
func (g *Gateway) start(ctx context.Context, lease Lease, plan *openai.Plan, choices []*choice) error {
	return g.sideBySide(ctx, choices, func(ctx context.Context, c *choice) error {
		return g.startChoice(ctx, lease, plan, c)
	})
}

// startChoice starts the thread and the turn of one choice.
func (g *Gateway) startChoice(ctx context.Context, lease Lease, plan *openai.Plan, c *choice) error {
	if err := g.pick(ctx, lease, plan, c); err != nil {
		return err
	}
	return c.startTurn(ctx, plan)
}

// startTurn starts the turn on the thread of a choice, behind its history.
func (c *choice) startTurn(ctx context.Context, plan *openai.Plan) error {
	if _, history := plan.Placed(c.place.instructions); len(history) > 0 {
		if err := c.thread.InjectItems(ctx, history); err != nil {
			return err
		}
	}
	return c.thread.StartTurn(ctx, plan.Turn)
}

// pick starts the thread of a choice on the process that the lease picks for
// it. If that turns out to be gone, another that is ready is tried, once: nothing
// was asked of the model yet. Where there is none and the process has just ended,
// its next start is waited for. From then on a turn does not move.
func (g *Gateway) pick(ctx context.Context, lease Lease, plan *openai.Plan, c *choice) error {
	process, done := lease.Pick(nil)
	err := g.openThread(ctx, process, plan, c)
	if err != nil && isGone(err) && ctx.Err() == nil {
		done()
		process, done = lease.Pick(process)
		ready, ended := process.Status().State == appserver.StateReady, errors.Is(err, codexrpc.ErrClosed)
		if ended && !ready {
			done()
			process, done = lease.Pick(nil)
		}
		if ended || ready {
			err = g.openThread(ctx, process, plan, c)
		}
	}
	if err != nil {
		done()
		return err
	}
	c.closed = done
	return nil
}

// isGone reports whether an error says that the process does not work, rather
// than that it has refused something.
func isGone(err error) bool {
	notReady := (*appserver.NotReadyError)(nil)
	return errors.Is(err, codexrpc.ErrClosed) || errors.As(err, &notReady)
}

// openThread starts the thread of a choice.
func (g *Gateway) openThread(ctx context.Context, process *appserver.Process, plan *openai.Plan, c *choice) error {
	conn, err := g.conn(ctx, process)
	if err != nil {
		return err
	}
	at := place{process: process, conn: conn, model: plan.Thread.Model, instructions: g.placement(conn, process, plan)}
	if c.thread, err = g.startThread(ctx, at, plan); err != nil {
		return err
	}
	c.place, c.repeatable = at, g.repeatable(at)
	return nil
}

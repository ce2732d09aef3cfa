package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/threads"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// choice is one of the turns of a request, on a thread of its own. It consumes the outputs.
type choice struct {
	index      int
	plan       *prompt.Plan  // nil: its turn will not be started once more
	options    *turn.Options // of its own
	place      threads.Place
	repeatable bool // the turn may have to be started once more
	movable    bool // there are other logins
	moved      bool // a failing provider has made it move, which happens once
	retries    int  // how often it was started again after a wait
	login      *loginstate.Login
	thread     *codexrpc.Thread
	machine    *turn.Machine // nil: its turn was not started
	closed     func()        // called once the thread is unloaded
	live       *status.Entry
	usage      codexrpc.Usage
	finish     turn.FinishReason // empty: the turn has failed
	calls      int               // of the client's, once the turn has ended for it
	truncated  bool              // there were more
	decoded    func()            // says that the images are decoded; nil: there are none that count
	first      time.Time         // of its first output; zero: there was none
	kept       keeping
	group      *turnGroup // that runs the turn
	parallel   bool       // a lite model has the full form, which the provider may refuse
	serial     error      // that refusal, after which the turn was started in the lite form; nil: none
	failure    error      // why the turn failed

	grant *quota.Grant // nil: the key has no limits
	input int64        // estimated tokens of the input
	said  int          // characters of the answer so far
	ran   bool         // the model was asked
	cut   bool         // the answer ends at a limit of tokens

	ownMachine turn.Machine // that machine refers to
}

// start starts the turns of a request, all of them side by side. If it fails, some
// may have started.
func (g *Gateway) start(x *exchange) error {
	x.newChoices()
	err := g.sideBySide(x, (*Gateway).startChoice)
	x.lease.Release() // each turn holds its own process now
	x.copied()
	return err
}

// newChoices makes the choices of a request, none of them started.
func (x *exchange) newChoices() {
	req := &x.req
	if x.choices = x.only[:]; req.plan.Choices != 1 {
		x.choices = make([]*choice, req.plan.Choices)
	}
	for i := range x.choices {
		options := &req.options
		if i > 0 {
			options = new(req.options)
		}
		options.Choice = i
		c := &choice{index: i, plan: req.plan, options: options, input: x.input, live: x.live, decoded: x.decoding.ended()}
		if len(x.grants) > 0 {
			if c.grant = x.grants[i]; c.grant.LimitsTokens() {
				options.Budget = c.grant
			}
		}
		x.choices[i] = c
	}
}

// newMachine gives a choice the machine for a turn on its thread, which had cost so much
// before.
func (c *choice) newMachine(spent codexrpc.Usage) {
	c.options.Spent = spent
	c.machine = &c.ownMachine
	c.machine.Reset(c.options)
}

// closeThreads lets the app-server unload the threads, in the background. A turn
// that still runs is interrupted.
func closeThreads(choices []*choice) {
	for _, c := range choices {
		c.kept.withdraw()
		if c.thread != nil {
			c.thread.Close(c.closed)
		}
	}
}

// startChoice starts the turn of one choice, in a kept thread or on a new one.
func (g *Gateway) startChoice(ctx context.Context, x *exchange, c *choice) error {
	plan := x.req.plan
	c.kept = keeping{schema: string(plan.Turn.OutputSchema), effort: plan.Thread.Config.Effort(), tools: plan.Tools}
	if len(x.choices) == 1 {
		c.kept.chain = requestChain{g: g, x: x, plan: plan}
	}
	if g.resume(ctx, x.lease, plan, c) {
		return nil
	}
	if err := g.pick(ctx, x.lease, plan, c); err != nil {
		return err
	}
	err := c.startTurn(ctx, plan)
	if err == nil || !c.kept.spare || ctx.Err() != nil {
		return err
	}
	// What became of the thread or its process while it waited shows only now.
	c.thread.Close(c.closed)
	c.thread = nil
	if err := g.pick(ctx, x.lease, plan, c); err != nil {
		return err
	}
	c.kept.reset()
	return c.startTurn(ctx, plan)
}

// startTurn puts the history into the thread of a choice and starts its turn.
func (c *choice) startTurn(ctx context.Context, plan *prompt.Plan) error {
	c.newMachine(codexrpc.Usage{})
	err := c.inject(ctx, c.restore(plan))
	if _, refused := errors.AsType[*codexrpc.CallError](err); refused && c.kept.restored {
		c.kept.forget() // another release of Codex may have other items
		err = c.inject(ctx, plan)
	}
	if err != nil {
		return err
	}
	c.thread.OnInput(c.decoded)
	if err := c.thread.StartTurn(ctx, plan.Turn); err != nil {
		return err
	}
	c.kept.prepareNext()
	return nil
}

// injectedAtOnce is how many bytes of a history go into a thread at once, unless one item is
// longer. Codex reads one message after the other: the turns of others come between the pieces.
const injectedAtOnce = 1 << 20

// inject puts the history into the thread of a choice. What may be refused, and replaced, is
// one piece: the thread would keep those before it.
func (c *choice) inject(ctx context.Context, plan *prompt.Plan) error {
	_, history := plan.Placed(c.place.Instructions)
	for len(history) > 0 {
		n, size := 1, len(history[0])
		for n < len(history) && (c.kept.restored || size+len(history[n]) <= injectedAtOnce) {
			size += len(history[n])
			n++
		}
		if err := c.thread.InjectItems(ctx, history[:n]); err != nil {
			return err
		}
		history = history[n:]
	}
	return nil
}

// pick starts the thread of a choice on the process that the lease picks for it. If
// that process is gone, pick tries another that is ready, once: the model was asked
// nothing yet. If there is none and the process has just ended, pick waits for its
// next start. From then on a turn does not move.
func (g *Gateway) pick(ctx context.Context, lease Lease, plan *prompt.Plan, c *choice) error {
	picked, done := lease.Pick()
	if picked.Rests != nil {
		done()
		return picked.Rests // no other is better
	}
	err := g.openThread(ctx, picked, plan, c)
	if err != nil && isGone(err) && ctx.Err() == nil {
		done()
		picked, done = lease.Pick(picked.Process)
		ready, ended := picked.Process.Status().State == appserver.StateReady, errors.Is(err, codexrpc.ErrClosed)
		if ended && !ready {
			done()
			picked, done = lease.Pick()
		}
		if ended || ready {
			err = g.openThread(ctx, picked, plan, c)
		}
	}
	if err != nil {
		done()
		return err
	}
	c.use(lease, picked.Login, done)
	c.repeatable = g.repeatable(c.place) || c.parallel || c.movable || c.kept.spare || c.retriable()
	return nil
}

// retriable reports whether the turn of a choice is started again, after a wait, if the provider
// fails.
func (c *choice) retriable() bool { return c.retries < c.place.Process.ProviderRetries() }

// isGone reports whether an error means that the process does not work, rather than
// that it has refused something.
func isGone(err error) bool {
	_, notReady := errors.AsType[*appserver.NotReadyError](err)
	return notReady || errors.Is(err, codexrpc.ErrClosed)
}

// openThread starts the thread of a choice.
func (g *Gateway) openThread(ctx context.Context, on Member, plan *prompt.Plan, c *choice) error {
	at, err := g.placeOn(ctx, on.Process, plan)
	if err != nil {
		return err
	}
	c.kept.in = nil
	if plan.Choices == 1 {
		if c.kept.in = on.Conversations; c.kept.in != nil {
			c.kept.chain.get() // while there is a plan
		}
	}
	thread, err := g.startThread(ctx, at, plan, c)
	if err != nil {
		return err
	}
	c.thread, c.place, c.parallel = thread, at, triesParallel(at, plan)
	return nil
}

// startThread starts a thread for a choice at a place, or takes a spare one.
func (g *Gateway) startThread(ctx context.Context, at threads.Place, plan *prompt.Plan, c *choice) (*codexrpc.Thread, error) {
	settings := at.Settings(plan)
	if c.machine == nil { // else a turn has been tried before: what waits may fail as well
		if thread := c.kept.takeSpare(settings); thread != nil {
			return thread, nil
		}
	}
	return settings.Start(ctx, g.opts.Logger)
}

// placeOn returns the place of a thread of a plan on a process, once that is ready. A plan
// without a model is for the app-server's own.
func (g *Gateway) placeOn(ctx context.Context, process *appserver.Process, plan *prompt.Plan) (threads.Place, error) {
	conn, err := g.conn(ctx, process)
	if err != nil {
		return threads.Place{}, err
	}
	if err := process.AwaitAccount(ctx, conn); err != nil {
		return threads.Place{}, err
	}
	model := plan.Thread.Model
	if model == "" {
		if model, err = process.DefaultModel(ctx, conn); err != nil {
			return threads.Place{}, err
		}
	}
	_, refused := conn.TakesParallelCalls(model)
	return threads.Place{
		Process: process, Conn: conn, Model: model,
		Instructions: g.placement(conn, process, model, plan),
		Serial:       refused || g.opts.Tools.ParallelToolCalls != nil && !*g.opts.Tools.ParallelToolCalls,
	}, nil
}

// placement returns where the instructions of a plan go on a thread of a process with
// this model.
func (g *Gateway) placement(conn *codexrpc.Conn, process *appserver.Process, model string, plan *prompt.Plan) prompt.Placement {
	own := process.Model(model)
	return prompt.Placement{
		Append: g.opts.Instructions == InstructionsAppend ||
			g.opts.Instructions == InstructionsAuto && conn.Strict() && !conn.TakesInstructions(model),
		Once: own.Lite && len(plan.Thread.DynamicTools) == 0,
		Own:  own.Prompt,
	}
}

// triesParallel reports whether a turn is started once more, in the lite form, if the provider
// refuses it. It is not for a model with which the provider has accepted the full form.
func triesParallel(at threads.Place, plan *prompt.Plan) bool {
	if !at.Parallel(plan) {
		return false
	}
	accepted, _ := at.Conn.TakesParallelCalls(at.Model)
	return !accepted
}

// repeatable reports whether a turn is started once more if the provider refuses its
// instructions. It is not for a model with which the provider has accepted some
// before, so that such a request need not be kept.
func (g *Gateway) repeatable(at threads.Place) bool {
	return g.opts.Instructions == InstructionsAuto && !at.Instructions.Append && !at.Conn.TakesInstructions(at.Model)
}

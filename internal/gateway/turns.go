package gateway

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// turnGroup runs the turns of one request, whose outputs go to one responder.
type turnGroup struct {
	g  *Gateway
	x  *exchange
	to responder

	mu         sync.Mutex
	err        error        // of to, or the failure of a turn; nothing is written after it
	plan       *prompt.Plan // nil: no turn will be started once more
	repeatable int          // turns that may have to be
}

// begin makes the group of the turns that were started.
func (t *turnGroup) begin(g *Gateway, x *exchange, to responder) {
	t.g, t.x, t.plan, t.to = g, x, x.req.plan, to
	x.req.plan = nil
	for _, c := range x.choices {
		if c.repeatable {
			t.repeatable++
		} else {
			c.plan = nil
		}
	}
	if t.repeatable == 0 {
		t.forgetRequest()
	}
}

// maxAttempts bounds how often a turn is started.
const maxAttempts = 8

// runChoice runs the turn of a choice, and once more where [Gateway.again] finds that it
// may help. The error is an *apierror.Error if the request has failed; else it is why the
// client could not be given the answer.
func (g *Gateway) runChoice(ctx context.Context, x *exchange, c *choice) error {
	t := &x.group
	failure, err := t.drive(ctx, c)
	for attempt := 1; failure != nil && attempt < maxAttempts; attempt++ {
		failure = c.explain(ctx, failure) // it may take a moment; the others go on
		started, failed := g.again(ctx, c.plan, c, failure)
		if !started {
			failure = failed
			break
		}
		if failed != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, turn.ErrShutdown) {
				return cause
			}
			failure = failed
			break
		}
		if !c.movable && !c.kept.restored && !g.repeatable(c.place) && c.serial == nil && !c.retriable() {
			t.settle(c, false)
		}
		failure, err = t.drive(ctx, c)
	}
	if failure == nil {
		return err
	}
	t.settle(c, false)
	return t.fail(g.nameModels(ctx, x, c, x.req.model, x.req.form.apiError(failure)))
}

// drive runs the turn of a choice. failure is why it failed; err is the error of the
// responder, or the cause of the end of ctx.
func (t *turnGroup) drive(ctx context.Context, c *choice) (failure, err error) {
	c.group, c.failure = t, nil
	defer t.g.watchSilence(ctx, c)()
	err = turn.Drive(ctx, c.thread, c.machine, c, t.g.opts.IdleTimeout)
	return c.failure, err
}

// explainTimeout bounds what is asked about a failure.
const explainTimeout = 2 * time.Second

// explain adds to the failure of a turn what the app-server knows of it: when a spent
// plan resets.
func (c *choice) explain(ctx context.Context, failure error) error {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return c.thread.ExplainLimit(ctx, failure)
}

// settle records that the turn of a choice will not be started again, and whether the
// provider has accepted its instructions. After the last such turn, it lets go of what
// only starting turns needed.
func (t *turnGroup) settle(c *choice, accepted bool) {
	if !c.repeatable {
		return
	}
	c.repeatable, c.plan = false, nil
	if accepted {
		t.learn(c)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.repeatable--; t.repeatable == 0 {
		t.forgetRequest()
	}
}

// learn records what the provider has accepted with the turn of a choice.
func (t *turnGroup) learn(c *choice) {
	if t.g.repeatable(c.place) {
		c.place.Conn.InstructionsTaken(c.place.Model)
	}
	switch {
	case c.parallel:
		c.place.Conn.ParallelCallsTaken(c.place.Model)
	case c.serial != nil && c.place.Conn.ParallelCallsRefused(c.place.Model):
		t.g.opts.Logger.Warn("the provider refuses requests in which this model may call several tools; from now on it calls one at a time",
			"model", c.place.Model, "error", c.serial)
	}
}

// forgetRequest lets go of what only starting turns needed, and of the body's memory
// if that is free then.
func (t *turnGroup) forgetRequest() {
	plan := t.plan
	plan.Thread, plan.History, plan.Turn = codexrpc.ThreadStartParams{}, nil, codexrpc.TurnStartParams{}
	t.plan = nil
	if t.x.req.form.forget() {
		t.x.body.Release()
	}
}

// write passes outputs of a choice to the responder unless the request has failed.
func (t *turnGroup) write(c *choice, outputs []turn.Output) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && len(outputs) > 0 {
		t.err = t.to.write(c.index, outputs)
	}
	return t.err
}

// fail fails the request. The first failure counts.
func (t *turnGroup) fail(apiErr *apierror.Error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = apiErr
	}
	return t.err
}

// Consume passes outputs to the responder, except for a failure, which it keeps.
func (c *choice) Consume(outputs []turn.Output) error {
	if c.first.IsZero() && outputs[0].Kind != turn.OutputFailure {
		c.answered()
	}
	if c.decoded != nil {
		c.decoded() // Codex says nothing of the images in the results of calls
	}
	c.observe(outputs)
	said := characters(outputs)
	c.said += said
	c.live.Add(said)
	c.kept.fold(outputs, c.options.OutputMode)
	if outputs[0].Kind != turn.OutputFailure {
		c.group.settle(c, true)
	}
	switch last := len(outputs) - 1; outputs[last].Kind {
	case turn.OutputFinish:
		c.settle(true)
		c.kept.announce()
	case turn.OutputFailure:
		outputs, c.failure = outputs[:last], outputs[last].Err
	}
	return c.group.write(c, outputs)
}

// answered records that the provider has answered, and how.
func (c *choice) answered() {
	c.login.Worked()
	if c.thread != nil && c.thread.FellBack() {
		c.place.Process.SocketFailed()
	}
}

// Leave passes what was held when the turn has ended without its client to the responder, also if
// that can write nothing more.
func (c *choice) Leave(outputs []turn.Output) {
	t := c.group
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to.leave(c.index, outputs)
}

// characters counts the characters of outputs.
func characters(outputs []turn.Output) (sum int) {
	for i := range outputs {
		if outputs[i].Kind != turn.OutputCallEnd { // which repeats the arguments
			sum += utf8.RuneCountInString(outputs[i].Text)
		}
	}
	return sum
}

// NextWake returns when the responder wants to be woken.
func (c *choice) NextWake() time.Duration {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	return c.group.to.nextWake()
}

// Wake wakes the responder unless the request has failed: a failure may still have to
// become the status.
func (c *choice) Wake() error {
	t := c.group
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = t.to.wake()
	}
	return t.err
}

// errPanicked ends the other choices when one has panicked, and a background response.
var errPanicked = errors.New("the server has failed while it made the answer")

// sideBySide calls do for all choices of an exchange at once, and waits for all calls. The
// first error ends the context of the others, with itself as the cause, and is returned. A
// panic goes on in the caller's goroutine, where the server recovers it.
func (g *Gateway) sideBySide(x *exchange, do func(*Gateway, context.Context, *exchange, *choice) error) error {
	if len(x.choices) == 1 {
		return do(g, x.ctx, x, x.choices[0])
	}
	panics := make(chan any, len(x.choices))
	all, ctx := errgroup.WithContext(x.ctx)
	for _, c := range x.choices {
		all.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					g.opts.Logger.LogAttrs(ctx, slog.LevelError, "a choice has panicked",
						slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
					panics <- p
					err = errPanicked
				}
			}()
			return do(g, ctx, x, c)
		})
	}
	err := all.Wait()
	if len(panics) > 0 {
		panic(<-panics)
	}
	return err
}

package gateway

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// turnGroup is what the turns of one request share: the responder, and what starts them again.
type turnGroup struct {
	mu     sync.Mutex
	to     responder
	err    error        // of to, or the failure of a turn; nothing is written after it
	plan   *prompt.Plan // nil: no turn will be started once more
	left   int          // turns that may have to be
	forget func()       // lets go of the rest of the request
}

// begin makes the group of the turns that were started. forget is called once none of them will be
// started again.
func (t *turnGroup) begin(choices []*choice, plan *prompt.Plan, to responder, forget func()) {
	t.to, t.plan, t.forget, t.left = to, plan, forget, len(choices)
	for _, c := range choices {
		c.group = t
		if !c.session.Repeatable() {
			t.settle(c)
		}
	}
}

// settle records that the turn of a choice will not be started again. After the last such turn,
// it lets go of what only starting turns needed.
func (t *turnGroup) settle(c *choice) {
	if !c.session.Settle() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left--; t.left == 0 {
		plan := t.plan
		plan.Thread, plan.History, plan.Turn = codexrpc.ThreadStartParams{}, nil, codexrpc.TurnStartParams{}
		t.plan = nil
		t.forget()
	}
}

// write passes outputs of a choice to the responder unless the request has failed.
func (t *turnGroup) write(choice int, outputs []turn.Output) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && len(outputs) > 0 {
		t.err = t.to.write(choice, outputs)
	}
	return t.err
}

// leave passes the last outputs of a choice without a client to the responder.
func (t *turnGroup) leave(choice int, outputs []turn.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to.leave(choice, outputs)
}

func (t *turnGroup) nextWake() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.to.nextWake()
}

func (t *turnGroup) wake() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = t.to.wake()
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

package gateway

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// detach starts a background response on its own goroutine. The client gets the response as it is
// now, or the stream of its events.
func (g *Gateway) detach(x *exchange, lease conversation.Lease, req *request, form *responseForm) requestOutcome {
	w, r := x.w, x.r
	if err := g.objects.Begin(r.Context(), form.underWay()); err != nil {
		return g.refuse(w, r, g.objects.Failed(r.Context(), r, err))
	}
	x.setHeaders(req)
	own := g.newBackground(x)
	to := g.newLogResponder(x.user, form)
	ctx := own.enter(form)
	// own releases its resources in reverse order: first Continue's function waits until the last
	// events are stored, then enter's function removes the response from the running ones. So an
	// exiting server, which waits until no response is running, waits until all events are stored.
	own.holds(releaseFunc(g.objects.Continue(form.underWay(), to.log, own.exit.cancel)))
	begun, streamed := form.meta.InProgress(), req.plan.Stream
	go g.runBackground(ctx, own, lease, req, to)
	if streamed {
		return g.follow(w, r, to.log, 0)
	}
	return requestOutcome{lost: writeJSON(w, http.StatusOK, begun)}
}

// newBackground returns an exchange for a background response. It moves the resources that x holds
// to the new exchange, which does not end when the client leaves.
func (g *Gateway) newBackground(x *exchange) *exchange {
	ctx, end := context.WithTimeoutCause(context.Background(), objects.MaxBackground, apierror.BackgroundTimeout(objects.MaxBackground))
	own := &exchange{w: &nobody{header: make(http.Header)}, user: x.user, arrived: x.arrived, held: append(x.held, releaseFunc(end))}
	x.held = nil
	own.ctx, own.exit.cancel = context.WithCancelCause(ctx)
	own.exit.done = own.ctx.Done()
	own.r = x.r.Clone(own.ctx)
	own.r.Body = http.NoBody
	own.exit.accepted.Store(true)
	g.exits.add(&own.exit)
	return own
}

// runBackground runs the turn of a background response to its end.
func (g *Gateway) runBackground(ctx context.Context, x *exchange, lease conversation.Lease, req *request, to *logResponder) {
	defer x.close()
	defer to.log.End()
	defer g.recoverBackground(ctx, to)
	run, err := g.start(ctx, x, lease, req)
	if err == nil {
		g.report(x.r, g.respond(ctx, run, to))
		return
	}
	if cause, ok := errors.AsType[*apierror.Error](context.Cause(ctx)); ok {
		err = cause
	}
	defer to.close()
	settleAll(run.choices, err)
	outcome := to.finish(req.form.apiError(err))
	outcome.turns = run.abandoned(outcome.apiErr)
	g.report(x.r, outcome)
}

// recoverBackground ends a background response whose goroutine has panicked. Without it, the panic
// would end the program.
func (g *Gateway) recoverBackground(ctx context.Context, to *logResponder) {
	if p := recover(); p != nil {
		g.opts.Logger.LogAttrs(ctx, slog.LevelError, "a background response has panicked",
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		defer func() { _ = recover() }() // the encoder itself may be broken
		to.finish(errPanicked)
	}
}

// nobody is the response writer of a background response. It drops what is written.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header            { return n.header }
func (n *nobody) Write(body []byte) (int, error) { return len(body), nil }
func (n *nobody) WriteHeader(int)                {}

// logResponder writes the events of a background response to its log.
type logResponder struct {
	log     *objects.Log
	encoder *responses.Stream
	events
}

func (g *Gateway) newLogResponder(user string, form *responseForm) *logResponder {
	log := g.objects.Running.Logs.Open(user, form.meta.ID)
	encoder := responses.NewStream(form.meta, log.Append)
	return &logResponder{log, encoder, events{to: encoder, held: g.hold(user)}}
}

func (l *logResponder) restart() {}

// nextWake returns the time until wake is due. Until the first events are written, wake is due at
// once; after that, it is never due.
func (l *logResponder) nextWake() time.Duration {
	if l.opened {
		return math.MaxInt64
	}
	return 0
}

func (l *logResponder) wake() error { return l.open() }

// finish logs the last event of a response that has failed.
func (l *logResponder) finish(err error) requestOutcome {
	if err == nil {
		return requestOutcome{}
	}
	apiErr := failures.APIError(err)
	if l.open() == nil {
		_ = l.encoder.Fail(apiErr) // appending to the log never fails
	}
	return requestOutcome{apiErr: apiErr, streamed: true}
}

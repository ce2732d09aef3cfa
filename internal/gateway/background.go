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
	"github.com/caddy-codex/caddy-codex/internal/eventlog"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/objects"
	"github.com/caddy-codex/caddy-codex/internal/responses"
)

// detach lets a response be made in the background, on a goroutine of its own, and answers
// its client: with the response as it is now, or with the stream of its events.
func (g *Gateway) detach(x *exchange, form *responseForm) requestOutcome {
	w, r := x.w, x.r
	if err := g.objects.Begin(r.Context(), form.underWay()); err != nil {
		return g.refuse(w, r, g.objects.Failed(r.Context(), r, err))
	}
	x.setHeaders()
	ctx, end := context.WithTimeoutCause(context.Background(), objects.MaxBackground, apierror.BackgroundTimeout(objects.MaxBackground))
	own := &exchange{
		w: &nobody{header: make(http.Header)}, user: x.user, key: x.key, limited: x.limited, grants: x.grants, input: x.input, arrived: x.arrived,
		live: x.live, req: x.req, lease: x.lease, body: x.body, copied: x.copied, held: append(x.held, releaseFunc(end)),
	}
	x.held = nil // the goroutine releases it
	own.ctx, own.cancel = context.WithCancelCause(ctx)
	own.r = r.Clone(own.ctx)
	own.r.Body = http.NoBody
	form.x = own
	own.log = g.newLogResponder(own, form)
	own.accepted.Store(true)
	g.exits.add(own)
	own.enter()
	// It is released before the response counts as over: the exit waits for its last events.
	own.holds(releaseFunc(g.objects.Continue(form.underWay(), own.log.log, own.cancel)))
	begun, streamed := form.meta.InProgress(), own.req.stream
	go g.runBackground(own)
	if streamed {
		return g.follow(w, r, own.log.log, 0)
	}
	return requestOutcome{lost: writeJSON(w, http.StatusOK, begun)}
}

// runBackground runs the turn of a background response to its end.
func (g *Gateway) runBackground(x *exchange) {
	defer x.close()
	defer x.log.log.End()
	defer g.recoverBackground(x)
	err := g.start(x)
	if err == nil {
		g.report(x.r, g.respond(x))
		return
	}
	if cause, ok := errors.AsType[*apierror.Error](context.Cause(x.ctx)); ok {
		err = cause
	}
	defer x.log.close()
	x.settleAll(err)
	g.report(x.r, x.log.finish(x.req.form.apiError(err)))
}

// recoverBackground ends a background response whose goroutine has panicked: nobody else
// would recover that.
func (g *Gateway) recoverBackground(x *exchange) {
	if p := recover(); p != nil {
		g.opts.Logger.LogAttrs(x.ctx, slog.LevelError, "a background response has panicked",
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		defer func() { _ = recover() }() // the encoder itself may be broken
		x.log.finish(errPanicked)
	}
}

// nobody is the client of a background response.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header            { return n.header }
func (n *nobody) Write(body []byte) (int, error) { return len(body), nil }
func (n *nobody) WriteHeader(int)                {}

// logResponder writes the events of a background response to its log.
type logResponder struct {
	log     *eventlog.Log
	encoder *responses.Stream
	events
}

func (g *Gateway) newLogResponder(x *exchange, form *responseForm) *logResponder {
	log := g.objects.Running.Logs.Open(x.user, form.meta.ID)
	encoder := responses.NewStream(form.meta, log.Append)
	return &logResponder{log, encoder, events{to: encoder, held: g.hold(x.user)}}
}

// nextWake is when the first events are due.
func (l *logResponder) nextWake() time.Duration {
	if l.opened {
		return math.MaxInt64
	}
	return 0
}

func (l *logResponder) wake() error { return l.open() }

// finish ends the response. It logs the last event, also after a failure.
func (l *logResponder) finish(err error) requestOutcome {
	if err == nil {
		return requestOutcome{}
	}
	apiErr := failures.APIError(err)
	if l.open() == nil {
		_ = l.encoder.Fail(apiErr) // the log takes everything
	}
	return requestOutcome{apiErr: apiErr, streamed: true}
}

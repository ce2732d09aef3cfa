package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/objects"
)

// detach runs a background response on its own goroutine. The client gets a stream of the events, or
// the response as it is at its beginning. The memory of what the client gets has its own claim: the
// claims of the request may be released long before the client has read everything.
func (g *Gateway) detach(ex *exchange, req *request) requestOutcome {
	w, r, answer := ex.w, ex.r, req.kept
	claim := g.answerBudget.Claim(ex.user)
	defer claim.Release()
	var snapshot claims.Bytes
	if !req.plan.Stream {
		if !claim.Grow(answer.meta.InProgressSize()) {
			return g.refuse(w, r, apierror.AnswerMemory())
		}
		snapshot, _ = claim.Keep(answer.meta.InProgress()) // always fits: Grow has claimed the memory
	}
	if err := g.objects.Begin(r.Context(), answer.runningResponse()); err != nil {
		return g.refuse(w, r, g.objects.Failed(r.Context(), r, err))
	}
	ex.setHeaders(req)
	if recorded, ok := w.(*recordedWriter); ok {
		w = recorded.ResponseWriter // newLogResponder records the events, which come before or after this answer
	}
	background := g.newBackground(ex)
	responder := g.newLogResponder(background, req)
	ctx := background.turnContext(answer)
	// background.close calls these functions in reverse order. The function of Continue comes first: it
	// waits until the last events are stored. Then the memory of the answer is released. After that,
	// the function of turnContext removes the response from those for which the exit waits.
	background.releaseOnClose(releaseFunc(responder.claim.release))
	background.releaseOnClose(releaseFunc(g.objects.Continue(answer.runningResponse(), responder.log, background.cancel)))
	streamed := req.plan.Stream // before runBackground drops the plan
	// While the client follows the events, for long, ex.prealloc must not keep the request in memory.
	moved := new(request)
	*moved, *req = *req, request{}
	req = moved
	go g.runBackground(ctx, background, req, responder)
	if streamed {
		return g.follow(w, r, responder.log, 0, claim)
	}
	return requestOutcome{deliveryErr: writeJSON(w, http.StatusOK, snapshot)}
}

// newBackground returns an exchange for a background response. This exchange does not end when the
// client leaves. The resources of ex move to the new exchange, except ex.requestSlot.
func (g *Gateway) newBackground(ex *exchange) *exchange {
	ctx, end := context.WithTimeoutCause(context.Background(), objects.MaxBackground, apierror.BackgroundTimeout(objects.MaxBackground))
	background := &exchange{w: &discardWriter{header: make(http.Header)}, user: ex.user, arrived: ex.arrived, lease: ex.lease, memory: ex.memory, recording: ex.recording, releasers: append(ex.releasers, releaseFunc(end))}
	ex.releasers, ex.original, ex.recording = nil, nil, nil
	background.accepted.Store(true)
	g.drainer.add(ctx, background)
	background.r = ex.r.Clone(background.ctx)
	background.r.Body = http.NoBody
	return background
}

// runBackground starts and runs the turn of a background response, reports its end, and closes ex.
func (g *Gateway) runBackground(ctx context.Context, ex *exchange, req *request, responder *responder) {
	defer ex.close()
	defer responder.log.End()
	defer g.recoverBackground(ctx, responder)
	run, err := g.start(ctx, ex, req)
	if err == nil {
		outcome := g.respond(ctx, run, responder)
		ex.endRecording(&outcome)
		g.report(ex.r, outcome)
		return
	}
	if cause, ok := errors.AsType[*apierror.Error](context.Cause(ctx)); ok { // the timeout, or a cancellation
		err = cause
	}
	settleAll(run.choices, err)
	outcome := responder.finish(req.apiError(err))
	outcome.turns, outcome.background = run.abandonedRecords(outcome.apiErr), true
	ex.endRecording(&outcome)
	g.report(ex.r, outcome)
}

// recoverBackground ends a background response whose goroutine panics. A panic would end the program.
func (g *Gateway) recoverBackground(ctx context.Context, responder *responder) {
	if p := recover(); p != nil {
		g.opts.Logger.LogAttrs(ctx, slog.LevelError, "a background response has panicked",
			slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		defer func() { _ = recover() }() // finish may panic, too, if the encoder is broken
		responder.finish(errPanicked)
	}
}

// discardWriter is the response writer of a background response. It discards what is written.
type discardWriter struct{ header http.Header }

func (n *discardWriter) Header() http.Header            { return n.header }
func (n *discardWriter) Write(body []byte) (int, error) { return len(body), nil }
func (n *discardWriter) WriteHeader(int)                {}

func (g *Gateway) newLogResponder(ex *exchange, req *request) *responder {
	log := g.objects.Running.Logs.Open(ex.user, req.kept.meta.ID)
	events := ex.recordEvents(&logEvents{log: log})
	req.answer.Begin(events.WriteEvent)
	return &responder{g: g, ex: ex, answer: req.answer, events: events, log: log, claim: g.newAnswerClaim(ex.user)}
}

// logEvents adds events to the log of a response.
type logEvents struct {
	quiet
	log   *objects.Log
	begun bool // there was an event
}

func (l *logEvents) WriteEvent(event string, data []byte) error {
	l.begun = true
	l.log.Append(event, data)
	return nil
}

func (*logEvents) Flush() error    { return nil }
func (l *logEvents) Started() bool { return l.begun }
func (*logEvents) Close() error    { return nil }

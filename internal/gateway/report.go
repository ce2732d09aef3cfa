package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/aggregator"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// Observer observes requests and turns. Its methods must be quick and safe for concurrent use.
type Observer interface {
	// AnswerBegan is called for each request whose turns have started. The function that it returns
	// is called when the answer has ended.
	AnswerBegan(stream bool) (ended func())
	// TurnsEnded is called when the turns of a request have ended, with one record for each choice.
	TurnsEnded(context.Context, []usage.Record)
	// RequestFailed is called once for each request that failed, before its turns or within them.
	RequestFailed(*http.Request, *apierror.Error)
}

type unobserved struct{}

func (unobserved) AnswerBegan(bool) (ended func())              { return func() {} }
func (unobserved) TurnsEnded(context.Context, []usage.Record)   {}
func (unobserved) RequestFailed(*http.Request, *apierror.Error) {}

type requestOutcome struct {
	apiErr      *apierror.Error // why the request failed; nil: it did not fail
	deliveryErr error           // why the client did not get the answer; nil: the client got it
	streamed    bool            // the answer was a stream that had begun
	turns       []usage.Record  // the records of the turns that were run
	unanswered  bool            // nothing was written, since Options.Next may serve the request
	background  bool            // a background response could not start; its request has ended, so the observer does not log this
}

// isCutOff reports whether the answer was begun but has no end.
func (o *requestOutcome) isCutOff() bool { return o.streamed && o.deliveryErr != nil }

// newRecord returns the record of a turn that has ended. apiErr is why the request failed, or nil.
func newRecord(ex *exchange, req *request, c *choice, apiErr *apierror.Error) usage.Record {
	now := time.Now()
	record := usage.Record{
		Time:       now,
		Duration:   now.Sub(ex.arrived),
		Route:      req.api.Name,
		RequestID:  requestID(ex.r),
		User:       ex.user,
		Choice:     c.index,
		Model:      req.plan.Model,
		CodexModel: c.turn.Place().Model,
		Process:    c.turn.Place().Process,
		Finish:     c.finish,
		Mode:       req.options.OutputMode,
		Stop:       req.options.StopAfterTools,
		Stream:     req.plan.Stream,
		Status:     http.StatusOK,
		Tools:      c.machine.Report(),
		Overrides:  req.overrides,
		Thread:     string(c.turn.Origin()),
		Price:      c.priceBefore.Add(c.machine.Price()),
		NotStored:  req.kept.notStored(),
	}
	record.Usage, record.Estimated = c.tokens()
	login, meter := c.turn.Meter()
	if record.Windows = usage.PlanWindows(login, meter, now); meter != nil {
		record.Meter = meter.ID
	}
	if !c.firstOutput.IsZero() {
		record.FirstOutput = c.firstOutput.Sub(ex.arrived)
	}
	if apiErr = cmp.Or(apiErr, c.apiErr); apiErr != nil {
		record.Status, record.Code = apiErr.Status, apiErr.Code
	}
	if req.key != nil {
		record.Key = req.key.ID
	}
	return record
}

// refuse answers a request that failed before its first output. If the client has gone, the answer is a
// 499: a client that closed only its sending side still reads, and must not take an empty 200 for an
// answer. If the context of r has ended, the client has gone. There are two exceptions: the server
// exits, or the body came too slowly (over HTTP/1, the body's deadline ends the context, too).
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, apiErr *apierror.Error) requestOutcome {
	if r.Context().Err() != nil && g.opts.Exit.Err() == nil && apiErr.Status != http.StatusRequestTimeout {
		apiErr = apierror.ClientGone()
	}
	limitWrite(w)
	return requestOutcome{apiErr: apiErr, deliveryErr: apiErr.Respond(w, r)}
}

// refuseUndelivered answers a request whose client has gone. deliveryErr is the error that showed this.
func (g *Gateway) refuseUndelivered(w http.ResponseWriter, r *http.Request, deliveryErr error) requestOutcome {
	outcome := g.refuse(w, r, apierror.ClientGone())
	outcome.deliveryErr = deliveryErr
	return outcome
}

func (g *Gateway) report(r *http.Request, outcome requestOutcome) {
	if outcome.apiErr != nil {
		g.opts.Observer.RequestFailed(r, outcome.apiErr)
		g.logFailure(r, outcome)
	}
	if outcome.deliveryErr != nil && !errors.Is(outcome.deliveryErr, context.Canceled) { // Canceled: the client has left, as clients may
		g.opts.Logger.LogAttrs(r.Context(), slog.LevelDebug, "the client did not take the answer",
			slog.String("request_id", requestID(r)),
			slog.String("error", outcome.deliveryErr.Error()))
	}
	if len(outcome.turns) > 0 {
		g.opts.Observer.TurnsEnded(r.Context(), outcome.turns)
	}
	for i := range outcome.turns {
		if tools := &outcome.turns[i].Tools; len(tools.Aborted) > 0 || tools.Unwritable > 0 {
			g.logTools(r, &outcome.turns[i])
		}
	}
}

// maxLoggedParam is how many bytes of an invalid field's name, which clients choose, are logged.
const maxLoggedParam = 200

// logFailure logs why a request failed, with details that the client does not get. If the request was
// refused before its turns, the level is debug, since the observer logs such requests, up to some rate.
func (g *Gateway) logFailure(r *http.Request, outcome requestOutcome) {
	e, message := outcome.apiErr, "request refused"
	if outcome.streamed {
		message = "request failed within its stream"
	}
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("request_id", requestID(r)),
		slog.Int("status", e.Status),
		slog.String("code", string(e.Code)),
		slog.String("param", e.Param[:min(len(e.Param), maxLoggedParam)]),
	}
	if e.Status >= http.StatusInternalServerError || e.Detail != "" {
		if len(outcome.turns) > 0 || outcome.background {
			level = slog.LevelWarn
		}
		// Other messages are not logged: the message about an invalid request may quote the request.
		attrs = append(attrs, slog.String("error", cmp.Or(e.Detail, e.Message)))
	}
	g.opts.Logger.LogAttrs(context.WithoutCancel(r.Context()), level, message, attrs...)
}

// logTools logs what went wrong with the tool calls of a turn.
func (g *Gateway) logTools(r *http.Request, record *usage.Record) {
	tools := record.Tools
	log := g.opts.Logger.With(
		slog.String("request_id", record.RequestID),
		slog.Int("choice", record.Choice),
		slog.String("mode", string(record.Mode)),
	)
	ctx := context.WithoutCancel(r.Context())
	for reason, n := range tools.Aborted {
		level := slog.LevelWarn
		if reason == aggregator.AbortUndeclared {
			level = slog.LevelDebug // the text only mentions a tool; nothing is wrong
		}
		log.LogAttrs(ctx, level, "a begun tool block was no call",
			slog.String("reason", string(reason)), slog.Int("blocks", n))
	}
	if tools.Unwritable > 0 {
		log.LogAttrs(ctx, slog.LevelWarn, "tool calls that no block can hold", slog.Int("calls", tools.Unwritable))
	}
}

func requestID(r *http.Request) string { return r.Header.Get("X-Request-Id") }

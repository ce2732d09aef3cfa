package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/live"
	"github.com/caddy-codex/caddy-codex/internal/queue"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// exchange is an HTTP request that wants turns of the model, and what it holds
// until its answer has ended.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request // its context ends when the client leaves
	user    string
	key     *quota.Key     // nil: it has none with limits
	grants  []*quota.Grant // of its turns
	input   int64          // estimated tokens of the input of each turn, if they are limited
	arrived time.Time
	live    *live.Entry // nil until the request is decoded

	lease   Lease
	body    *budget.Claim // of the body and of what the request refers to
	copied  func()        // lets another large body be copied; may be called more than once
	choices []*choice
	log     *logResponder // of a background response; nil: it is none
	cleanup []func()      // run by close, the last first
}

func (g *Gateway) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	return &exchange{w: w, r: r, user: g.opts.User(r), arrived: time.Now(), cleanup: make([]func(), 0, 8)}
}

// atEnd registers f to be called by close.
func (x *exchange) atEnd(f func()) { x.cleanup = append(x.cleanup, f) }

// close releases all that the exchange holds, even if a part of that panics.
func (x *exchange) close() {
	for _, f := range x.cleanup {
		defer f()
	}
}

// serve serves a request for turns of the model.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, c codec) {
	x := g.newExchange(w, r)
	defer x.close()
	g.conclude(r, g.handle(x, c))
}

// conclude reports how a request ended, and cuts an answer that has no end.
func (g *Gateway) conclude(r *http.Request, outcome requestOutcome) {
	g.report(r, outcome)
	if outcome.cut() {
		// Returning would end the body as if it were complete, which a client that
		// has closed its sending side alone would see.
		panic(http.ErrAbortHandler)
	}
}

// handle leases the app-servers, receives the request, starts its turns and responds
// with what they say.
func (g *Gateway) handle(x *exchange, c codec) requestOutcome {
	// The lease comes first: from here on, a reload cannot take the processes away.
	if err := g.takeLease(x); err != nil {
		return g.refuse(x.w, x.r, apierror.From(err))
	}
	req, apiErr := g.accept(x, c)
	if apiErr != nil {
		x.closeGrants()
		return g.refuse(x.w, x.r, apiErr)
	}
	if form, ok := req.form.(*responseForm); ok && form.request.Background() {
		return g.detach(x, req, form)
	}
	if form, ok := req.form.(*responseForm); ok && form.request.Warmup() {
		x.closeGrants()
		return g.newStreamResponder(x, form).warmUp()
	}
	ctx := g.enter(x, req)
	if err := g.start(ctx, x, req); err != nil {
		x.settleAll(context.Cause(ctx))
		return g.refuse(x.w, x.r, req.form.apiError(err))
	}
	return g.respond(ctx, x, req)
}

// enter returns the context of the turns of a request, which others may end.
func (g *Gateway) enter(x *exchange, req *request) context.Context {
	ctx, end := g.untilDrained(x.r.Context())
	x.atEnd(end)
	ctx, end = req.form.track(ctx)
	x.atEnd(end)
	return ctx
}

// takeLease takes the lease of the app-servers.
func (g *Gateway) takeLease(x *exchange) (err error) {
	if x.lease, err = g.upstream.Lease(); err == nil {
		x.atEnd(x.lease.Release)
	}
	return err
}

// accept receives a request unless the server is exiting or begins to exit.
func (g *Gateway) accept(x *exchange, c codec) (*request, *apierror.Error) {
	ctx, end := g.untilExit(x.r.Context())
	defer end()
	req, apiErr := g.receive(ctx, x, c)
	if apiErr != nil && errors.Is(context.Cause(ctx), turn.ErrShutdown) {
		apiErr = apierror.From(turn.ErrShutdown) // it caused whatever failed
	}
	return req, apiErr
}

// receive receives a request and prepares its turns.
func (g *Gateway) receive(ctx context.Context, x *exchange, c codec) (*request, *apierror.Error) {
	decoded, apiErr := g.receiveDecoded(ctx, x, c)
	if apiErr != nil {
		return nil, apiErr
	}
	return g.prepare(ctx, x, c.route(), decoded)
}

// receiveDecoded reads and decodes a request and waits until its turns may run. It does
// not read a request that finds the queue full.
func (g *Gateway) receiveDecoded(ctx context.Context, x *exchange, c codec) (decodedRequest, *apierror.Error) {
	if apiErr := g.identify(x); apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return nil, apiErr
	}
	if g.queue.Full(x.user) {
		reqbody.LimitDiscard(x.w)
		return nil, apierror.QueueFull()
	}
	if apiErr := g.countRequest(x); apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return nil, apiErr
	}
	x.body = g.bodies.Claim()
	x.atEnd(x.body.Release)
	body, apiErr := g.readBody(ctx, x)
	if apiErr != nil {
		return nil, apiErr
	}
	var decoded decodedRequest
	g.compute(len(body), func() { decoded, apiErr = c.decode(body) })
	if apiErr == nil && x.key != nil && !x.key.Allows(decoded.ModelID()) {
		apiErr = apierror.ModelNotFound(decoded.ModelID()).WithModels(x.key.Models)
	}
	if apiErr == nil && !g.opts.WebSearch {
		apiErr = decoded.WithoutSearch()
	}
	if apiErr != nil {
		return nil, apiErr
	}
	if apiErr := g.acquireTurns(x, decoded.Choices()); apiErr != nil {
		return nil, apiErr
	}
	g.show(x, c.route(), decoded)
	leave, apiErr := g.admit(ctx, x.user, decoded.Choices())
	if apiErr != nil {
		return nil, apiErr
	}
	x.atEnd(leave)
	x.live.Enter(live.Starting)
	return decoded, nil
}

// show lists the request among those that are under way, until its end.
func (g *Gateway) show(x *exchange, route Route, decoded decodedRequest) {
	x.live = g.opts.Live.Begin(live.Request{
		ID: requestID(x.r), User: x.user, Route: string(route), Model: decoded.ModelID(),
		Choices: decoded.Choices(), Since: x.arrived,
	})
	x.atEnd(x.live.End)
}

// readBody reads the body of a request. Caddy's own limit (request_body) may be lower than
// the gateway's.
func (g *Gateway) readBody(ctx context.Context, x *exchange) ([]byte, *apierror.Error) {
	body, err := g.bodies.Read(ctx, x.w, x.r, x.body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierror.PayloadTooLarge(tooLarge.Limit)
	}
	if corrupt, ok := errors.AsType[*reqbody.CorruptError](err); ok {
		return nil, apierror.CorruptBody(corrupt.Encoding)
	}
	switch {
	case errors.Is(err, reqbody.ErrEncoding):
		return nil, apierror.UnsupportedEncoding(x.r.Header.Get("Content-Encoding"))
	case errors.Is(err, reqbody.ErrNoMemory):
		return nil, apierror.BodyMemory()
	case errors.Is(err, reqbody.ErrTooSlow):
		return nil, apierror.BodyTimeout(reqbody.MinRate, reqbody.MaxTime)
	case err != nil:
		return nil, apierror.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return body, nil
}

// admit waits until all turns of a request may run. The caller calls leave when
// they have ended.
func (g *Gateway) admit(ctx context.Context, user string, turns int) (leave func(), apiErr *apierror.Error) {
	leave, err := g.queue.Acquire(ctx, user, turns)
	switch {
	case errors.Is(err, queue.ErrFull):
		return nil, apierror.QueueFull()
	case errors.Is(err, queue.ErrTimeout):
		return nil, apierror.QueueTimeout(g.opts.QueueWait)
	case errors.Is(err, queue.ErrTooHeavy):
		return nil, apierror.TooManyChoices(turns, g.queue.Heaviest())
	case err != nil:
		return nil, apierror.From(err)
	}
	return leave, nil
}

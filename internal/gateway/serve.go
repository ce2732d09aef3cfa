package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// exchange is an HTTP request under way, with its user and the resources that are released when its
// answer has ended.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request   // its context ends when the client leaves
	ctx     context.Context // for the work on the request: it ends with the context of r, and when the server exits
	user    string
	arrived time.Time
	exit    watched
	place   claims.Claim // of the request
	held    []releaser   // released by close, the last first
	own     allocated
}

// allocated has what nearly every request needs, so that one allocation is enough for all of it.
type allocated struct {
	live          status.Entry
	body          claims.Claim
	slots, memory claims.Slots
	request       request
	running       running
	choices       [1]*choice
	records       [1]Record
	held          [8]releaser
	headers       [2]string
}

// releaser is what an exchange holds until its end.
type releaser interface{ Release() }

// releaseFunc is a function that releases something.
type releaseFunc func()

// Release calls f.
func (f releaseFunc) Release() { f() }

func (g *Gateway) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{w: w, r: r, user: g.opts.User(r), arrived: time.Now()}
	x.held = x.own.held[:0]
	x.ctx, x.exit.cancel = context.WithCancelCause(r.Context())
	x.exit.done = x.ctx.Done()
	g.exits.add(&x.exit)
	return x
}

// holds registers what close releases.
func (x *exchange) holds(what releaser) { x.held = append(x.held, what) }

// close releases all that the exchange holds, even if a part of that panics.
func (x *exchange) close() {
	defer x.exit.cancel(nil)
	defer x.exit.remove()
	defer x.place.Release()
	x.release()
}

// release releases the resources in x.held, the last one first. It calls itself, since a loop with
// defer would allocate.
func (x *exchange) release() {
	if last := len(x.held) - 1; last >= 0 {
		what := x.held[last]
		x.held = x.held[:last]
		defer x.release()
		what.Release()
	}
}

// serve serves a request for turns of the model.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, c codec) {
	x := g.newExchange(w, r)
	defer x.close()
	g.conclude(r, g.handle(x, c))
}

// conclude reports how a request ended. If the answer was begun but not completed, conclude aborts
// it.
func (g *Gateway) conclude(r *http.Request, outcome requestOutcome) {
	g.report(r, outcome)
	if outcome.cut() {
		// Returning would end the body as if it were complete. A client that has closed only its
		// sending side would believe that it has got the whole body.
		panic(http.ErrAbortHandler)
	}
}

// handle leases the app-servers, receives the request, starts its turns and responds with their
// outputs.
func (g *Gateway) handle(x *exchange, c codec) requestOutcome {
	// The lease comes first: while the request has it, a reload cannot stop the app-servers.
	lease, err := g.upstream.Lease()
	if err != nil {
		reqbody.LimitDiscard(x.w)
		return g.refuse(x.w, x.r, failures.APIError(err))
	}
	x.holds(lease)
	if apiErr := g.takePlace(&x.place, x.user); apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return g.refuse(x.w, x.r, apiErr)
	}
	req, apiErr := g.accept(x, c)
	if apiErr != nil {
		return g.refuse(x.w, x.r, apiErr)
	}
	if form, ok := req.form.(*responseForm); ok && form.q.Background {
		return g.detach(x, lease, req, form)
	}
	if form, ok := req.form.(warmer); ok && form.warms() {
		closeGrants(req.grants)
		return warmUp(g.newResponder(x, req, new(conversation.Place), new(tally)))
	}
	ctx := x.enter(req.form)
	run, err := g.start(ctx, x, lease, req)
	if err != nil {
		settleAll(run.choices, context.Cause(ctx))
		outcome := g.refuse(x.w, x.r, req.form.apiError(err))
		outcome.turns = run.abandoned(outcome.apiErr)
		return outcome
	}
	return g.respond(ctx, run, g.newResponder(x, req, run.place(), &run.group.tally))
}

// enter returns the context for the turns of a request. A request that deletes or cancels the
// answer cancels this context.
func (x *exchange) enter(f form) context.Context {
	ctx, end := f.track(x.ctx)
	x.holds(releaseFunc(end))
	return ctx
}

// accept receives a request and prepares its turns. It fails if the server is exiting or begins to
// exit.
func (g *Gateway) accept(x *exchange, c codec) (*request, *apierror.Error) {
	defer x.exit.accepted.Store(true)
	got, decoded, apiErr := g.receive(x, c)
	var req *request
	if apiErr == nil {
		req, apiErr = g.prepare(x, got, decoded)
	}
	if apiErr != nil {
		closeGrants(got.grants)
	}
	return req, x.unlessExit(apiErr)
}

// unlessExit returns apiErr. If the server's exit has ended the request, it returns the error about
// the exit instead, since the exit has caused the failure. Nil stays nil.
func (x *exchange) unlessExit(apiErr *apierror.Error) *apierror.Error {
	if apiErr != nil && errors.Is(context.Cause(x.ctx), turn.ErrShutdown) {
		return failures.APIError(turn.ErrShutdown)
	}
	return apiErr
}

// received is a request that was read and may run.
type received struct {
	route  Route
	show   showLimit
	key    *quota.Key     // nil: no key with limits was used
	limits *quota.Request // the use of the key's limits by the request; nil: there are none
	grants []*quota.Grant // one for each turn; empty: there are no limits
	body   *claims.Claim  // of the body and of what the request refers to
	live   *status.Entry
}

// receive reads and decodes a request and waits until its turns may run. If the body does not
// matter, for instance because the queue is full, receive refuses the request without reading the
// body.
func (g *Gateway) receive(x *exchange, c codec) (got received, decoded decodedRequest, apiErr *apierror.Error) {
	got = received{route: c.route, show: c.show}
	if apiErr = g.beginLimits(x, &got); apiErr == nil && g.queue.Full(x.user) {
		apiErr = apierror.QueueFull()
	}
	if apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return got, nil, apiErr
	}
	body, claim, apiErr := g.readBody(x)
	if got.body = claim; apiErr != nil {
		return got, nil, apiErr
	}
	g.compute(x, int64(len(body)), func() { decoded, apiErr = c.decode(body) })
	if apiErr == nil && got.key != nil && !g.allows(got.key, decoded.ModelID()) {
		apiErr = apierror.ModelNotFound(decoded.ModelID()).WithModels(got.key.Models)
	}
	if apiErr == nil && !g.opts.WebSearch {
		apiErr = decoded.Without(prompt.WebSearchTool)
	}
	if apiErr == nil && !g.opts.Pictures {
		apiErr = decoded.Without(prompt.PictureTool)
	}
	if apiErr != nil {
		return got, nil, apiErr
	}
	if got.grants, apiErr = g.acquireTurns(x, got.limits, decoded.Choices()); apiErr != nil {
		return got, nil, apiErr
	}
	got.live = g.show(x, c.route, decoded)
	if apiErr := g.admit(x, decoded.Choices()); apiErr != nil {
		return got, nil, apiErr
	}
	got.live.Enter(status.Starting)
	return got, decoded, nil
}

// show lists the request among the requests under way, until its end.
func (g *Gateway) show(x *exchange, route Route, decoded decodedRequest) *status.Entry {
	live := &x.own.live
	g.opts.Live.Begin(live, status.Request{
		ID: requestID(x.r), User: x.user, Route: string(route), Model: decoded.ModelID(),
		Choices: decoded.Choices(), Since: x.arrived,
	})
	x.holds(live)
	return live
}

// readBody reads the body of a request. Caddy's own limit (request_body) may be lower than
// the gateway's. claim counts the memory of the body until the end of the exchange.
func (g *Gateway) readBody(x *exchange) (body []byte, claim *claims.Claim, apiErr *apierror.Error) {
	claim = &x.own.body
	*claim = *g.bodies.Claim(x.user)
	x.holds(claim)
	body, err := g.bodies.Read(x.ctx, x.w, x.r, claim)
	return body, claim, bodyError(x.r, err)
}

// bodyError returns why a body could not be read, nil for nil.
func bodyError(r *http.Request, err error) *apierror.Error {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return apierror.PayloadTooLarge(tooLarge.Limit)
	}
	if corrupt, ok := errors.AsType[*reqbody.CorruptError](err); ok {
		return apierror.CorruptBody(corrupt.Encoding)
	}
	switch {
	case errors.Is(err, reqbody.ErrEncoding):
		return apierror.UnsupportedEncoding(reqbody.Encoding(r))
	case errors.Is(err, reqbody.ErrNoMemory):
		return apierror.BodyMemory()
	case errors.Is(err, reqbody.ErrTooSlow):
		return apierror.BodyTimeout(reqbody.MinRate, reqbody.MaxTime)
	case err != nil:
		return apierror.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return nil
}

// admit waits until all turns of a request may run.
func (g *Gateway) admit(x *exchange, turns int) *apierror.Error {
	slots, err := g.queue.Acquire(x.ctx, x.user, turns)
	if errors.Is(err, claims.ErrTooHeavy) {
		return apierror.TooManyChoices(turns, g.queue.Heaviest())
	}
	if apiErr := g.queueError(err); apiErr != nil {
		return apiErr
	}
	x.own.slots = slots
	x.holds(&x.own.slots)
	return nil
}

// countTokens runs count on one of the processors that requests share. Each call of pause gives the
// processor to another user for a while, if one is waiting. The memory of a large body's decoded
// form is charged to body.
func (g *Gateway) countTokens(x *exchange, body *claims.Claim, count func(pause func() error) (int, error)) (n int, apiErr *apierror.Error) {
	if size := body.Size(); size >= inTurnFrom && !body.Grow(size) {
		return 0, apierror.BodyMemory()
	}
	var err error
	g.processors.Do(x.user, x.arrived, func() {
		n, err = count(func() error {
			g.processors.Yield(x.user, x.arrived)
			return context.Cause(x.ctx)
		})
	})
	if err == nil {
		err = context.Cause(x.ctx)
	}
	if err != nil {
		return 0, failures.APIError(err)
	}
	return n, nil
}

// inTurnFrom is the size in bytes from which requests wait in line for a processor.
const inTurnFrom = 64 << 10

// compute runs f, which works on size bytes of a request and waits for nothing. Large requests
// are computed in the order of their arrival, as many at once as there are processors: if all
// ran side by side, all would be ready only at the end.
func (g *Gateway) compute(x *exchange, size int64, f func()) {
	if size < inTurnFrom {
		f()
		return
	}
	g.processors.Do(x.user, x.arrived, f)
}

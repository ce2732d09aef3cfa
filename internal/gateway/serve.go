package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// exchange is an HTTP request that wants turns of the model, and what it holds
// until its answer has ended. What nearly every exchange needs is a part of it, so that
// it is allocated at once; not the choices, which a refused request does not have.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request   // its context ends when the client leaves
	ctx     context.Context // of what is done for it: it ends with that of r, and when the server exits
	cancel  context.CancelCauseFunc
	user    string
	key     *quota.Key     // nil: it has none with limits
	limited *quota.Request // what it does with the limits of its key
	grants  []*quota.Grant // of its turns
	input   int64          // estimated tokens of the input of each turn
	arrived time.Time
	limit   func(http.Header, shownLimit) // sets the headers about a limit
	live    *status.Entry                 // nil until the request is decoded

	req    request // once it is accepted
	lease  conversation.Lease
	place  claims.Claim  // of the request
	body   *claims.Claim // of the body and of what the request refers to
	memory claims.Slots  // of the app-servers, in MiB
	copied func()        // lets another large body be copied; may be called more than once

	decoding *decoding // of its images; nil: they take no memory that counts
	choices  []*choice
	group    turnGroup     // of the choices
	log      *logResponder // of a background response; nil: it is none
	held     []releaser    // released by close, the last first

	accepted atomic.Bool     // its turns may start
	gone     <-chan struct{} // the context that cancel ends has ended
	watch    *drainer        // of the server's exit

	// These are what the fields above refer to.
	ownLive  status.Entry
	ownBody  claims.Claim
	ownSlots claims.Slots
	only     [1]*choice
	record   [1]Record
	ownHeld  [8]releaser
	headers  [3]string // values of headers of the answer
}

// releaser is what an exchange holds until its end.
type releaser interface{ Release() }

// releaseFunc is a function that releases something.
type releaseFunc func()

// Release calls f.
func (f releaseFunc) Release() { f() }

func (g *Gateway) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{w: w, r: r, user: g.opts.User(r), arrived: time.Now()}
	x.held = x.ownHeld[:0]
	x.ctx, x.cancel = context.WithCancelCause(r.Context())
	g.exits.add(x)
	return x
}

// holds registers what close releases.
func (x *exchange) holds(what releaser) { x.held = append(x.held, what) }

// close releases all that the exchange holds, even if a part of that panics.
func (x *exchange) close() {
	defer x.cancel(nil)
	defer x.watch.remove(x)
	defer x.place.Release()
	defer x.release()
	for _, c := range x.choices {
		c.session.Close()
	}
}

// release releases what is held. A loop with defer would allocate.
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
	x.limit = c.limit
	// The lease comes first: from here on, a reload cannot take the processes away.
	if err := g.takeLease(x); err != nil {
		reqbody.LimitDiscard(x.w)
		return g.refuse(x.w, x.r, failures.APIError(err))
	}
	if apiErr := g.takePlace(&x.place, x.user); apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return g.refuse(x.w, x.r, apiErr)
	}
	if apiErr := g.accept(x, c); apiErr != nil {
		x.closeGrants()
		return g.refuse(x.w, x.r, apiErr)
	}
	if form, ok := x.req.form.(*responseForm); ok && form.q.Background {
		return g.detach(x, form)
	}
	if form, ok := x.req.form.(*responseForm); ok && form.q.Warmup {
		x.closeGrants()
		return g.newStreamResponder(x).warmUp()
	}
	x.enter()
	if err := g.start(x); err != nil {
		x.settleAll(context.Cause(x.ctx))
		return g.refuse(x.w, x.r, x.req.form.apiError(err))
	}
	return g.respond(x)
}

// enter lets others end the turns of a request.
func (x *exchange) enter() {
	var end func()
	x.ctx, end = x.req.form.track(x.ctx)
	x.holds(releaseFunc(end))
}

// takeLease takes the lease of the app-servers.
func (g *Gateway) takeLease(x *exchange) (err error) {
	if x.lease, err = g.upstream.Lease(); err == nil {
		x.holds(x.lease)
	}
	return err
}

// accept receives a request and prepares its turns, unless the server is exiting or begins
// to exit.
func (g *Gateway) accept(x *exchange, c codec) *apierror.Error {
	defer x.accepted.Store(true)
	decoded, apiErr := g.receive(x, c)
	if apiErr == nil {
		apiErr = g.prepare(x, c.route, decoded)
	}
	return x.unlessExit(apiErr)
}

// unlessExit returns the error of a request. Once the server's exit has ended the request, that
// has caused whatever failed.
func (x *exchange) unlessExit(apiErr *apierror.Error) *apierror.Error {
	if apiErr != nil && errors.Is(context.Cause(x.ctx), turn.ErrShutdown) {
		return failures.APIError(turn.ErrShutdown)
	}
	return apiErr
}

// receive reads and decodes a request and waits until its turns may run. It does not read
// the body of a request that is refused anyway, such as one that finds the queue full.
func (g *Gateway) receive(x *exchange, c codec) (decodedRequest, *apierror.Error) {
	var apiErr *apierror.Error
	if x.key, apiErr = g.keyOf(x.r); apiErr == nil && g.queue.Full(x.user) {
		apiErr = apierror.QueueFull()
	}
	if apiErr == nil {
		apiErr = g.countRequest(x)
	}
	if apiErr != nil {
		reqbody.LimitDiscard(x.w)
		return nil, apiErr
	}
	body, apiErr := g.readBody(x)
	if apiErr != nil {
		return nil, apiErr
	}
	var decoded decodedRequest
	g.compute(x, int64(len(body)), func() { decoded, apiErr = c.decode(body) })
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
	g.show(x, c.route, decoded)
	if apiErr := g.admit(x, decoded.Choices()); apiErr != nil {
		return nil, apiErr
	}
	x.live.Enter(status.Starting)
	return decoded, nil
}

// show lists the request among those that are under way, until its end.
func (g *Gateway) show(x *exchange, route Route, decoded decodedRequest) {
	x.live = &x.ownLive
	g.opts.Live.Begin(x.live, status.Request{
		ID: requestID(x.r), User: x.user, Route: string(route), Model: decoded.ModelID(),
		Choices: decoded.Choices(), Since: x.arrived,
	})
	x.holds(x.live)
}

// readBody reads the body of a request. Caddy's own limit (request_body) may be lower than
// the gateway's.
func (g *Gateway) readBody(x *exchange) ([]byte, *apierror.Error) {
	x.ownBody = *g.bodies.Claim(x.user)
	x.body = &x.ownBody
	x.holds(x.body)
	body, err := g.bodies.Read(x.ctx, x.w, x.r, x.body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, apierror.PayloadTooLarge(tooLarge.Limit)
	}
	if corrupt, ok := errors.AsType[*reqbody.CorruptError](err); ok {
		return nil, apierror.CorruptBody(corrupt.Encoding)
	}
	switch {
	case errors.Is(err, reqbody.ErrEncoding):
		return nil, apierror.UnsupportedEncoding(reqbody.Encoding(x.r))
	case errors.Is(err, reqbody.ErrNoMemory):
		return nil, apierror.BodyMemory()
	case errors.Is(err, reqbody.ErrTooSlow):
		return nil, apierror.BodyTimeout(reqbody.MinRate, reqbody.MaxTime)
	case err != nil:
		return nil, apierror.InvalidRequest("", "The request body could not be read to its end: "+err.Error())
	}
	return body, nil
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
	x.ownSlots = slots
	x.holds(&x.ownSlots)
	return nil
}

// countTokens counts the tokens of a request on one of the processors, on which other users come
// between the pieces of a long one. What is decoded for it counts like a body.
func (g *Gateway) countTokens(x *exchange, count func(pause func() error) (int, error)) (n int, apiErr *apierror.Error) {
	if size := x.body.Size(); size >= inTurnFrom && !x.body.Grow(size) {
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

// inTurnFrom is the size from which requests take turns on the processors, in bytes.
const inTurnFrom = 64 << 10

// compute runs f, which works on so many bytes of a request and waits for nothing. Large
// requests are served in the order of their arrival, as many at once as there are
// processors: side by side all of many would be ready at the end, in turn half of them are
// in half the time.
func (g *Gateway) compute(x *exchange, size int64, f func()) {
	if size < inTurnFrom {
		f()
		return
	}
	g.processors.Do(x.user, x.arrived, f)
}

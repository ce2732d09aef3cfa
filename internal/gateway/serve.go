package gateway

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/api"
	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/claims"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/quota"
	"github.com/caddy-codex/caddy-codex/internal/recorder"
	"github.com/caddy-codex/caddy-codex/internal/reqbody"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// exchange is an HTTP request that is being served, with what has to be released when the answer ends.
type exchange struct {
	w           http.ResponseWriter
	r           *http.Request   // its context ends when the client leaves
	ctx         context.Context // for the work on the request; ends with the context of r, or when the server exits
	user        string
	arrived     time.Time
	cancel      context.CancelCauseFunc // of ctx
	accepted    atomic.Bool             // true: the request may continue for the drain timeout after the exit has begun; false: it ends immediately
	drainer     *drainer
	requestSlot claims.Claim       // one slot of Gateway.requestSlots
	events      events             // where the events of the answer go; nil: they go to w, as server-sent events
	session     *socketSession     // of the WebSocket from which the request came; nil: it came by HTTP
	releasers   []releaser         // released by close, the last first
	memory      *turnMemory        // made by claimMemory; nil: none was claimed
	lease       conversation.Lease // released when the turns have started, or by close; nil: the request needs no turn
	recording   *recorder.Exchange // nil: the request is not recorded
	original    []byte             // the body as it came, for Options.Next; nil: no other handler can serve the request
	prealloc    preallocated
}

// preallocated is memory for what nearly every request needs, in the one allocation of the exchange.
type preallocated struct {
	statusEntry status.Entry
	body        claims.Claim
	turnSlots   claims.Slots
	request     request
	running     runningRequest
	choices     [1]*choice
	releasers   [8]releaser
	headers     [2]string
}

type releaser interface{ Release() }

type releaseFunc func()

// Release calls f.
func (f releaseFunc) Release() { f() }

func (g *Gateway) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	ex := &exchange{w: w, r: r, user: g.opts.User(r), arrived: time.Now()}
	ex.releasers = ex.prealloc.releasers[:0]
	g.drainer.add(r.Context(), ex)
	return ex
}

func (ex *exchange) releaseOnClose(resource releaser) { ex.releasers = append(ex.releasers, resource) }

// close releases all that the exchange holds, even if releasing one of the resources panics.
func (ex *exchange) close() {
	defer ex.cancel(nil)
	defer ex.drainer.remove(ex)
	defer ex.requestSlot.Release()
	ex.release()
}

// release releases ex.releasers from last to first. It defers itself, since defers in a loop allocate.
func (ex *exchange) release() {
	if last := len(ex.releasers) - 1; last >= 0 {
		resource := ex.releasers[last]
		ex.releasers = ex.releasers[:last]
		defer ex.release()
		resource.Release()
	}
}

func (g *Gateway) serve(rt *Route, w http.ResponseWriter, r *http.Request) {
	ex := g.newExchange(w, r)
	defer ex.close()
	g.record(ex)
	if g.opts.Next != nil {
		ex.original = []byte{}
	}
	outcome := g.handle(ex, rt.API, rt.Turn)
	if outcome.unanswered {
		ex.recording.End(string(apierror.PassedOn.Code), nil) // what the next handler does is not recorded
		g.passOn(ex, outcome.apiErr)
		return
	}
	ex.endRecording(&outcome)
	g.conclude(r, outcome)
}

// conclude reports how a request ended. If the answer was begun but not completed, it aborts the request.
func (g *Gateway) conclude(r *http.Request, outcome requestOutcome) {
	g.report(r, outcome)
	if outcome.isCutOff() {
		// Returning would end the body as if it were complete. A client that has closed only its
		// sending side would believe that it has got the whole body.
		panic(http.ErrAbortHandler)
	}
}

// handle answers a request to which the model replies. Each step may refuse the request.
func (g *Gateway) handle(ex *exchange, of *api.API, decode api.Turn) requestOutcome {
	// The lease comes first: while the request has it, a reload cannot stop the app-servers.
	lease, err := g.upstream.Lease()
	if err != nil {
		reqbody.LimitDiscard(ex.w)
		return g.refuse(ex.w, ex.r, failures.APIError(err))
	}
	ex.lease = lease
	ex.releaseOnClose(lease)
	if apiErr := g.claimRequestSlot(ex); apiErr != nil {
		reqbody.LimitDiscard(ex.w)
		return g.refuse(ex.w, ex.r, apiErr)
	}
	req, apiErr := g.accept(ex, of, decode)
	if apiErr != nil {
		return g.refuseOrPassOn(ex, apiErr)
	}
	if req.kept != nil && req.kept.q.Background {
		return g.detach(ex, req)
	}
	if req.form.Warmup { // the client wants no output
		closeGrants(req.grants)
		ex.original = nil
		responder := g.newResponder(ex, req)
		defer responder.close()
		return responder.finish(responder.write(0, []turn.Output{{Kind: turn.OutputFinish, End: &turn.End{Finish: turn.FinishStop}}}))
	}
	ctx := ex.turnContext(req.kept)
	run, err := g.start(ctx, ex, req)
	if err != nil {
		settleAll(run.choices, context.Cause(ctx))
		outcome := g.refuseOrPassOn(ex, req.apiError(err))
		outcome.turns = run.abandonedRecords(outcome.apiErr)
		return outcome
	}
	return g.respond(ctx, run, g.newResponder(ex, req))
}

// turnContext returns the turns' context. It makes a streamed or background response known to other requests until
// the exchange is closed: if one of them deletes or cancels the response, the context is cancelled. (The client
// gets the id of any other response only at its end.)
func (ex *exchange) turnContext(a *keptResponse) context.Context {
	if a == nil || !a.q.Stream && !a.q.Background {
		return ex.ctx
	}
	ctx, end := a.g.objects.Running.Begin(ex.ctx, a.runningResponse())
	ex.releaseOnClose(releaseFunc(end))
	return ctx
}

// accept receives a request and prepares its turns. If the exit begins before accept returns, the request
// ends immediately. If the exit begins later, the request may go on for the drain timeout.
func (g *Gateway) accept(ex *exchange, of *api.API, decode api.Turn) (*request, *apierror.Error) {
	defer ex.accepted.Store(true)
	req, decoded, apiErr := g.receive(ex, of, decode)
	if apiErr == nil && g.withholdsReserve(ex, req.model) {
		apiErr = apierror.ModelNotFound(req.model)
	}
	if apiErr == nil {
		apiErr = g.prepare(ex, req, decoded)
	}
	if apiErr != nil {
		closeGrants(req.grants)
	}
	return req, ex.preferExitError(apiErr)
}

// withholdsReserve reports whether a request names the Luna Reserve, which no app-server may use.
func (g *Gateway) withholdsReserve(ex *exchange, name string) bool {
	model, _, _ := g.resolveModel(name)
	return strings.EqualFold(model, codexrpc.ReserveModel) &&
		!slices.ContainsFunc(ex.lease.Members(), func(m conversation.Member) bool { return m.Process.LunaReserve() })
}

// preferExitError returns apiErr or, if the request has failed because of the exit, the exit's error.
func (ex *exchange) preferExitError(apiErr *apierror.Error) *apierror.Error {
	if apiErr != nil && errors.Is(context.Cause(ex.ctx), turn.ErrShutdown) {
		return failures.APIError(turn.ErrShutdown)
	}
	return apiErr
}

// request is a request that the model answers.
type request struct {
	api         *api.API
	model       string         // as the client names it; empty until the request is decoded
	kept        *keptResponse  // what the server keeps of the answer; nil: nothing
	key         *quota.Key     // nil: no key with limits was used
	limits      *quota.Request // the request's use of the key's limits; nil: no key with limits was used
	grants      []*quota.Grant // one for each turn; empty: the key limits neither turns nor tokens
	body        *claims.Claim  // the memory of the body, and of the images and items to which the request refers
	statusEntry *status.Entry

	// The fields below are set by prepare.
	plan      *prompt.Plan // its large parts are dropped when no further turn will be started
	options   turn.Options // of the first choice; each other choice has a copy
	answer    api.Answer
	form      api.Form                    // of answer
	overrides []string                    // see [Gateway.toolOverrides]
	shorter   *shortening                 // nil: the conversation is not shortened
	sealed    func(summary string) []byte // what is sealed of a summary that is the answer
	input     int64                       // estimated tokens of the input of each turn
	endCopy   func()                      // see [Gateway.waitToCopy]; further calls do nothing
}

// receive reads and decodes a request, and waits until its turns may run. It does not read the body if
// beginLimits refuses the request or the queue is full.
func (g *Gateway) receive(ex *exchange, of *api.API, decode api.Turn) (req *request, decoded api.Request, apiErr *apierror.Error) {
	if req, apiErr = g.beginLimits(ex, of); apiErr == nil && g.queue.Full(ex.user) {
		apiErr = apierror.QueueFull()
	}
	if apiErr != nil {
		reqbody.LimitDiscard(ex.w)
		return req, nil, apiErr
	}
	body, claim, apiErr := g.readBody(ex)
	if req.body = claim; apiErr != nil {
		return req, nil, apiErr
	}
	g.compute(ex, int64(len(body)), func() { decoded, apiErr = decode(g, ex.r, body) })
	if apiErr == nil && req.key != nil && !g.allows(req.key, decoded.Asked().Model) {
		apiErr = apierror.ModelNotFound(decoded.Asked().Model).WithModels(req.key.Models)
	}
	if apiErr == nil && !g.opts.WebSearch {
		apiErr = decoded.WithoutSearch()
	}
	if apiErr == nil {
		req.model = decoded.Asked().Model
		apiErr = g.checkSpent(ex, req, decoded.Asked())
	}
	if apiErr != nil {
		return req, nil, apiErr
	}
	req.kept = g.newKept(ex, decoded)
	if req.grants, apiErr = g.acquireGrants(ex, req.limits, decoded.Asked().Choices()); apiErr != nil {
		return req, nil, apiErr
	}
	req.statusEntry = g.trackStatus(ex, of, decoded)
	if apiErr := g.admit(ex, decoded.Asked().Choices()); apiErr != nil {
		return req, nil, apiErr
	}
	req.statusEntry.Enter(status.Starting)
	ex.recording.Note(0, string(status.Starting), nil)
	return req, decoded, nil
}

// trackStatus lists the request in Options.Live until the exchange is closed.
func (g *Gateway) trackStatus(ex *exchange, of *api.API, decoded api.Request) *status.Entry {
	entry := &ex.prealloc.statusEntry
	g.opts.Live.Begin(entry, status.Request{
		ID: requestID(ex.r), User: ex.user, Route: of.Name, Model: decoded.Asked().Model,
		Choices: decoded.Asked().Choices(), Since: ex.arrived,
	})
	ex.recording.Note(0, string(status.Waiting), nil)
	ex.releaseOnClose(entry)
	return entry
}

// readBody reads the body of a request. claim counts the memory of the body until the end of the
// exchange. The limit is Options.MaxBody or Caddy's own limit (request_body), whichever is lower.
func (g *Gateway) readBody(ex *exchange) (body []byte, claim *claims.Claim, apiErr *apierror.Error) {
	claim = &ex.prealloc.body
	*claim = *g.bodies.Claim(ex.user)
	ex.releaseOnClose(claim)
	body, err := g.bodies.Read(ex.ctx, ex.w, ex.r, claim, &ex.original)
	ex.recording.Body(body)
	return body, claim, bodyError(ex.r, err)
}

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

func (g *Gateway) admit(ex *exchange, turns int) *apierror.Error {
	slots, err := g.queue.Acquire(ex.ctx, ex.user, turns)
	if errors.Is(err, claims.ErrTooHeavy) {
		return apierror.TooManyChoices(turns, g.queue.Heaviest())
	}
	if apiErr := g.queueError(err); apiErr != nil {
		return apiErr
	}
	ex.prealloc.turnSlots = slots
	ex.releaseOnClose(&ex.prealloc.turnSlots)
	return nil
}

// countTokens runs count on one of the processors that large requests share. count calls pause between
// its steps, so that other requests get this processor. For a large body, countTokens first claims the
// size of the body once more, as the memory of the decoded request.
func (g *Gateway) countTokens(ex *exchange, body *claims.Claim, count func(pause func() error) (int, error)) (int, *apierror.Error) {
	if size := body.Size(); size >= largeRequestSize && !body.Grow(size) {
		return 0, apierror.BodyMemory()
	}
	processor := g.processors.AcquireInOrder(ex.user, ex.arrived)
	defer func() { processor.Release() }()
	n, err := count(func() error {
		processor.Release()
		processor = g.processors.AcquireInOrder(ex.user, ex.arrived)
		return context.Cause(ex.ctx)
	})
	if err == nil {
		err = context.Cause(ex.ctx)
	}
	if err != nil {
		return 0, failures.APIError(err)
	}
	return n, nil
}

// largeRequestSize is the size in bytes from which a request waits for a processor, see [Gateway.compute].
const largeRequestSize = 64 << 10

// newProcessors returns a queue for n processors. Any number may wait. One user may hold all processors.
func newProcessors(n int) *claims.Queue {
	return claims.NewQueue(claims.QueueOptions{Concurrent: n, PerUser: n, Queue: math.MaxInt})
}

// compute runs f, which processes size bytes of a request and does not block. A large request waits for
// a processor. The large requests of a user get processors in the order in which they arrived: if all
// ran at once, none would be ready early.
func (g *Gateway) compute(ex *exchange, size int64, f func()) {
	if size < largeRequestSize {
		f()
		return
	}
	processor := g.processors.AcquireInOrder(ex.user, ex.arrived)
	defer processor.Release()
	f()
}

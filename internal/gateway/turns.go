package gateway

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/caddy-codex/caddy-codex/internal/apierror"
	"github.com/caddy-codex/caddy-codex/internal/conversation"
	"github.com/caddy-codex/caddy-codex/internal/usage"
)

// runningRequest has the turns of a request. All of them write to the same responder.
type runningRequest struct {
	g       *Gateway
	ex      *exchange
	req     *request
	choices []*choice

	mu          sync.Mutex // guards the fields below
	responder   *responder
	err         error // why writing or the request has failed; nil: neither has; after err, nothing is written
	restartable int   // how many turns may still have to be started again

	allowedFailures int             // how many more choices may fail before the request fails
	firstFailure    *apierror.Error // of the first choice that has failed; nil: none has failed
}

// start starts the turns of all choices at the same time. ex.close closes them, also after an error.
func (g *Gateway) start(ctx context.Context, ex *exchange, req *request) (*runningRequest, error) {
	run := &ex.prealloc.running
	*run = runningRequest{g: g, ex: ex, req: req, restartable: req.plan.Choices}
	run.choices = run.newChoices()
	if req.form.Partial {
		run.allowedFailures = len(run.choices) - 1
	}
	ex.releaseOnClose(run)
	err := run.forEachChoice(ctx, (*runningRequest).startChoice)
	if req.shorter == nil {
		ex.lease.Release() // each turn holds its own process now
	}
	req.endCopy()
	return run, err
}

// abandonedRecords is called if the turns could not start. It returns a record for each turn for which
// the model was probably asked. Such turns count for the key of the request.
func (run *runningRequest) abandonedRecords(apiErr *apierror.Error) (records []usage.Record) {
	for _, c := range run.choices {
		if c.modelAsked {
			records = append(records, newRecord(run.ex, run.req, c, apiErr))
		}
	}
	return records
}

// newChoices returns the choices of a request. Their turns are not started.
func (run *runningRequest) newChoices() []*choice {
	req, choices := run.req, run.ex.prealloc.choices[:]
	if req.plan.Choices != 1 {
		choices = make([]*choice, req.plan.Choices)
	}
	for i := range choices {
		options := &req.options
		if i > 0 {
			options = new(req.options)
		}
		options.Choice = i
		c := &choice{run: run, index: i, options: options}
		if len(req.grants) > 0 {
			if c.grant = req.grants[i]; c.grant.LimitsTokens() {
				options.Budget = c.grant
			}
		}
		choices[i] = c
	}
	return choices
}

// Release closes the turns of all choices. Threads that are kept for later requests stay loaded.
func (run *runningRequest) Release() {
	for _, c := range run.choices {
		if c.turn != nil {
			c.turn.Close(false)
		}
	}
}

// modelAndVersion returns Codex's name of the first choice's model, and the release of its Codex.
func (run *runningRequest) modelAndVersion() (model, version string) {
	place := run.choices[0].turn.Place()
	if place.Process != nil {
		version = place.Process.Status().Version
	}
	return place.Model, version
}

func (run *runningRequest) startChoice(ctx context.Context, c *choice) (err error) {
	g, ex, req := run.g, run.ex, run.req
	request := conversation.Request{
		Plan: req.plan, Chain: req.shorter.stands(), Host: ex.r.Host, User: ex.user, Live: req.statusEntry, Consumer: c, Machine: &c.machine, Options: c.options,
		Compute:     func(f func()) { g.compute(ex, req.body.Size(), f) },
		BeforeStart: func(ctx context.Context) (func(), error) { return g.awaitDecoder(ctx, ex, c.index) },
		OnInput:     ex.memory.choiceDone(c.index), Memory: ex.memory,
	}
	if req.key != nil && req.key.PlanShare > 0 {
		request.Refuses = req.refusesLogin
	}
	c.turn, err = g.opener.Open(ctx, ex.lease, request)
	return err
}

// runChoice runs the turn of a choice. The error is an *apierror.Error if the request has failed. Any
// other error is the reason why the client did not get the answer.
func (run *runningRequest) runChoice(ctx context.Context, c *choice) error {
	failure, err := c.turn.Run(ctx)
	for run.req.shorter.goesOn(c, failure, err) {
		failure, err = run.runNext(ctx, c)
	}
	if failure == nil {
		return err
	}
	return run.fail(c, run.nameModels(ctx, c, run.req.apiError(failure)))
}

// fail records that a choice has failed. If the request can succeed without this choice, fail returns
// nil. Otherwise the request fails with the error of the first choice that failed.
func (run *runningRequest) fail(c *choice, apiErr *apierror.Error) error {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.firstFailure != nil {
		apiErr = run.firstFailure
	}
	run.firstFailure, c.apiErr = apiErr, apiErr
	if run.err == nil && run.allowedFailures > 0 {
		run.allowedFailures--
		return nil
	}
	if run.err == nil {
		run.err = apiErr
	}
	return run.err
}

// errPanicked ends a background response that has panicked, or the other choices after one has panicked.
var errPanicked = errors.New("the server has failed while it made the answer")

// forEachChoice calls f for all choices at the same time, and waits until all calls have returned. It
// returns the first error. This error also cancels the context of the other calls, as its cause. A
// panic of f is raised again in the caller's goroutine, where the HTTP server recovers it.
func (run *runningRequest) forEachChoice(ctx context.Context, f func(*runningRequest, context.Context, *choice) error) error {
	if len(run.choices) == 1 {
		return f(run, run.ex.recording.Context(ctx, 0), run.choices[0])
	}
	panics := make(chan any, len(run.choices))
	group, groupCtx := errgroup.WithContext(ctx) // not assigned to ctx: that would move ctx to the heap, also for a single choice
	for _, c := range run.choices {
		group.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					run.g.opts.Logger.LogAttrs(groupCtx, slog.LevelError, "a choice has panicked",
						slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
					panics <- p
					err = errPanicked
				}
			}()
			return f(run, run.ex.recording.Context(groupCtx, c.index), c)
		})
	}
	err := group.Wait()
	if len(panics) > 0 {
		panic(<-panics)
	}
	return err
}

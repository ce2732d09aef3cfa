package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/budget"
	"github.com/caddy-codex/caddy-codex/internal/openai"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/sse"
)

// request is one API request on its way, whatever its wire.
type request struct {
	arrived time.Time
	route   Route
	choices int
	// prepare makes the rest of what a decoded request needs, once it has its
	// place among those that run: what it fetches takes memory.
	prepare func(context.Context) *openai.Error

	copied  func() // to be called once no copies of the body are needed; nil: there are none
	plan    *openai.Plan
	options turn.Options // of every choice
	wire    wire
	// begin is called before the turns start, and what it returns when they are
	// over. Their context is that of the request that it returns. Nil: there is
	// nothing to do.
	begin func(*http.Request) (*http.Request, func())
	// forget lets go of what refers to the body, once Codex has it. It reports false
	// if as much is kept to the end. Nil: there is nothing to do.
	forget  func() bool
	memory  *budget.Claim // of the body
	settler *settler      // hands over
}

// handOver lets go of what only starting the turns needed, and of the body's
// memory if that is free then.
func (req *request) handOver() {
	req.prepare = nil
	req.plan.Thread, req.plan.History, req.plan.Turn = codexrpc.ThreadStartParams{}, nil, codexrpc.TurnStartParams{}
	if req.forget == nil || req.forget() {
		req.memory.Release()
	}
}

// wire is the form of an answer: chat completions or Responses. A request has
// one of its own, and asks it for one encoder.
type wire interface {
	// Stream returns the encoder of an answer that is streamed through w.
	Stream(w *sse.Writer) eventEncoder
	// Whole returns the encoder of an answer in one body.
	Whole() bodyEncoder
	// Refusal is how a client is told that the request failed before anything was
	// written.
	Refusal(failure error) *openai.Error
}

// eventEncoder writes the outputs of a request's turns as the events of a
// stream.
type eventEncoder interface {
	// Open writes what precedes the first output, if there is such a thing. It is
	// called once, before the first Write or when the stream's header can wait no
	// longer.
	Open() error
	// Write takes the next output of a choice.
	Write(choice int, out turn.Output) error
	// Done reports whether the last event that depends on outputs is written: all
	// choices have finished, or one has failed.
	Done() bool
	// Holds reports whether the encoder holds all outputs until the end.
	Holds() bool
	// Cancel ends the answer because somebody has cancelled it.
	Cancel() error
	// Close writes what follows then. tools sums up the choices.
	Close(tools turn.Report) error
}

// bodyEncoder folds the outputs of a request's turns into one body.
type bodyEncoder interface {
	// Add takes the next output of a choice.
	Add(choice int, out turn.Output)
	// Failure is why the request failed, or nil.
	Failure() error
	// JSON returns the body, once all choices have finished.
	JSON() []byte
}

// doneCopying lets another large body be copied.
func (req *request) doneCopying() {
	if req.copied != nil {
		req.copied()
	}
}

// reader reads and checks the request of one route. The memory of its body is in
// the claim.
type reader func(http.ResponseWriter, *http.Request, *budget.Claim) (*request, *openai.Error)

// serve runs a request that wants turns of the model. All routes that do go
// this way.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, read reader) {
	arrived := time.Now()
	// The lease comes first: from here on, a reload cannot take the processes away.
	lease, err := g.upstream.Lease()
	if err != nil {
		g.refuse(w, r, openai.FromFailure(err))
		return
	}
	defer lease.Release()
	memory := g.bodies.budget.Claim()
	defer memory.Release()
	req, leave, refusal := g.receive(w, r, read, memory)
	if refusal != nil {
		g.refuse(w, r, refusal)
		return
	}
	req.arrived, req.memory = arrived, memory
	defer leave()
	defer req.doneCopying()
	r, end := g.untilDrained(r)
	defer end()
	if req.begin != nil {
		r, end = req.begin(r)
		defer end()
	}
	choices := newChoices(req)
	defer closeAll(choices)
	err = g.start(r.Context(), lease, req.plan, choices)
	lease.Release() // each turn holds its own process now
	req.doneCopying()
	if err != nil {
		g.refuse(w, r, req.wire.Refusal(err))
		return
	}
	req.settler = newSettler(req, choices)
	g.answer(w, r, req, choices)
}

// receive reads a request, waits until its turns may run, and prepares them.
// leave is to be called when they are over. All that ends as soon as the server
// is exiting. A request that finds the queue full is not read.
func (g *Gateway) receive(w http.ResponseWriter, r *http.Request, read reader, memory *budget.Claim) (req *request, leave func(), refusal *openai.Error) {
	r, end := g.untilExit(r)
	defer end()
	if g.queue.Full(g.opts.User(r)) {
		LimitDiscard(w)
		return nil, nil, openai.QueueFull()
	}
	if req, refusal = read(w, r, memory); refusal == nil {
		leave, refusal = g.admit(r, req.choices)
	}
	if refusal == nil {
		refusal = req.prepareOrLeave(r.Context(), leave)
	}
	if refusal != nil && errors.Is(context.Cause(r.Context()), turn.ErrShutdown) {
		refusal = openai.FromFailure(turn.ErrShutdown) // whatever else came of it
	}
	return req, leave, refusal
}

// prepareOrLeave prepares the turns. Unless that goes well, it leaves the place
// that they have, also if it panics.
func (req *request) prepareOrLeave(ctx context.Context, leave func()) (refusal *openai.Error) {
	prepared := false
	defer func() {
		if !prepared {
			req.doneCopying()
			leave()
		}
	}()
	refusal = req.prepare(ctx)
	prepared = refusal == nil
	return refusal
}

package conversation

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Instructions says where Codex puts the instructions of a conversation in the model's prompt.
type Instructions string

// The values of [Opener].Instructions.
const (
	InstructionsAuto    Instructions = "auto"    // like replace; like append after the provider has refused replace
	InstructionsReplace Instructions = "replace" // in the place of Codex's own prompt
	InstructionsAppend  Instructions = "append"  // behind Codex's own prompt
)

// Opener opens the turns of a gateway.
type Opener struct {
	Upstream     Upstream
	Instructions Instructions
	IdleTimeout  time.Duration // how long the model may be silent within a turn
	Logger       *slog.Logger
}

// Request is the request for a turn.
type Request struct {
	Plan *prompt.Plan
	// Chain has the hashes of the conversation for which the thread stands; nil: of the conversation in Plan.
	// With a Chain, the plan has that conversation in a shorter form, so the turn starts on a thread of its own.
	Chain *Chain
	// Host and User identify the owner of the conversation.
	Host, User string
	// Live is the request's entry in the list of running requests.
	Live *status.Entry
	// Consumer gets the outputs of the turn. Machine makes the outputs, with Options. Each start of the
	// turn resets Machine, and sets Options.Spent.
	Consumer Consumer
	Machine  *turn.Machine
	Options  *turn.Options
	// Compute calls its argument, a function that takes long because it reads the whole history.
	// Compute may wait before the call, so that not too many such functions run at the same time.
	Compute func(func())
	// BeforeStart is called before each start of the turn. If BeforeStart fails, the turn is not started.
	// If the turn is not started again after all, undo is called.
	BeforeStart func(context.Context) (undo func(), err error)
	// Refuses returns why the turn is not to use a login, by its [Member.Meter] id; nil: it may. It may be nil.
	Refuses func(loginID string) error
	// OnInput is called when Codex has decoded the images of the input. It may be nil.
	OnInput func()
	// Memory is what the turn needs in the app-server.
	Memory TurnMemory
}

// TurnMemory is the claim of a request's turns on an app-server's memory. Each thread holds the claim until
// the thread is kept or the app-server has ended the work on it, perhaps after the client has left.
type TurnMemory interface {
	Hold()
	Release()
}

// Consumer gets a turn's outputs, also a failure, after which the turn may be started again.
type Consumer interface {
	turn.Consumer
	// Restarted is called when a turn that had no output yet was started again.
	Restarted()
	// Committed is called once, when it is clear that the turn will not be started again, perhaps
	// before Open returns. The turn does not need the plan any more.
	Committed()
}

// Turn is the turn of one choice of a request. It has the thread on which the turn runs, until the
// thread is kept for a later request or unloaded. A Turn is not safe for concurrent use.
type Turn struct {
	opener  *Opener
	request Request // its Plan is nil if the turn will not be started again
	tools   prompt.ToolNames
	schema  string // the JSON Schema of the answer; empty: none
	effort  string // the reasoning effort of the turn; empty: the model's default
	model   string // the model that the request names; empty: the default

	chain         *Chain // the hashes of the request's history; nil: not computed, or they cannot be computed
	chainComputed bool   // historyChain was called: chain does not change any more

	current       attempt
	retries       int   // how often the turn was started again after a wait
	loginSwitches int   // how often another login was tried because the provider failed
	serialReason  error // the failure after which the turn was restarted with one tool call at a time; nil: there was no such restart

	answered    bool           // the turn has had an output
	answer      Answer         // what the client has got so far
	usage       codexrpc.Usage // of the turn, after its end
	historyHash Hash           // hash of the history and the whole answer
	withdraw    func()         // ends the announcement of the thread, see [Threads.announce]; nil: the thread will not be kept
}

// attempt describes one start of a turn.
type attempt struct {
	origin             Origin
	member             Member // may have no Threads
	place              Place
	thread             *codexrpc.Thread // nil: there is none
	usageBefore        codexrpc.Usage   // what earlier turns of the thread have used
	triesParallelCalls bool             // see the function triesParallelCalls
	begun              time.Time        // when the turn was started, if the thread was not kept
	threads            *Threads         // where the thread may be kept later; nil: the thread will not be kept
	spareSettings      *settings        // the settings of a spare thread to start for a later request; nil: start none

	hasOtherLogins bool   // there are app-servers with another login
	onClose        func() // is called when the thread is kept or unloaded
}

// Origin says where the thread of a turn comes from.
type Origin string

// The values of Origin.
const (
	New       Origin = "new"
	Prepared  Origin = "prepared"  // the thread was started before its request
	Continued Origin = "continued" // the thread has had turns for earlier requests
	Resumed   Origin = "resumed"   // the turn waited for the results of tool calls, and goes on
)

func (a *attempt) wasKept() bool { return a.origin == Continued || a.origin == Resumed }

// Place returns where the thread runs.
func (t *Turn) Place() *Place { return &t.current.place }

// Meter returns the [Member.Meter] that counts the turn.
func (t *Turn) Meter() (loginID string, meter *codexrpc.Meter) {
	return t.current.member.Meter(t.current.place.counted(t.model))
}

// Origin returns where the thread comes from.
func (t *Turn) Origin() Origin { return t.current.origin }

// maxAttempts bounds how often a turn is started.
const maxAttempts = 8

// Run runs the turn to its end. If the turn fails before its first output, Run starts it again if that may
// help. failure is why the turn has failed, or nil. err is the error of the consumer, or why ctx has ended.
func (t *Turn) Run(ctx context.Context) (failure, err error) {
	defer func() {
		if t.current.threads == nil {
			t.Close(false) // there is nothing to keep
		}
	}()
	failure, err = t.drive(ctx)
	for attempt := 1; failure != nil && attempt < maxAttempts; attempt++ {
		failure = t.explain(ctx, failure)
		started, failed := t.restart(ctx, failure)
		if started && failed != nil { // perhaps only because ctx has ended
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, turn.ErrShutdown) {
				return nil, cause
			}
		}
		if failed != nil {
			failure = failed
			break
		}
		t.prepareToRun()
		t.request.Consumer.Restarted()
		failure, err = t.drive(ctx)
	}
	if failure != nil {
		t.commit()
	}
	return failure, err
}

func (t *Turn) drive(ctx context.Context) (failure, err error) {
	defer t.watchSilence(ctx)()
	outputs := &observer{Consumer: t.request.Consumer, t: t}
	err = turn.Drive(ctx, t.current.thread, t.request.Machine, outputs, t.opener.IdleTimeout)
	return outputs.failure, err
}

// prepareToRun is called when the turn was started. The turn may have used tokens before this
// request, if the request has the results of tool calls for which the turn waited.
func (t *Turn) prepareToRun() {
	t.request.Options.Spent = t.current.usageBefore
	t.request.Machine.Reset(t.request.Options)
	if !t.repeatable() {
		t.commit()
	}
}

func (t *Turn) commit() {
	if t.request.Plan != nil {
		t.request.Plan = nil
		t.request.Consumer.Committed()
	}
}

// observer records what a turn's outputs say about the answer, the login and the provider. It then passes
// the outputs to the turn's consumer.
type observer struct {
	Consumer
	t       *Turn
	failure error // why the turn failed; nil: it has not failed
}

// Consume implements [turn.Consumer].
func (o *observer) Consume(outputs []turn.Output) error {
	t := o.t
	if !t.answered && outputs[0].Kind != turn.OutputFailure {
		t.recordSuccess()
		if decoded := t.request.OnInput; decoded != nil {
			// When the first output comes, Codex has decoded all images, also if an event that shows
			// this earlier has not come. After a failure, Codex may still be decoding.
			decoded()
		}
		t.commit()
	}
	t.recordOutputs(outputs)
	switch last := &outputs[len(outputs)-1]; last.Kind {
	case turn.OutputFinish:
		t.usage = last.End.Usage
		t.announce()
	case turn.OutputFailure:
		o.failure = last.Err
	}
	return o.Consumer.Consume(outputs)
}

// ExplainTimeout bounds the time of each request that asks Codex for details about a failure.
const ExplainTimeout = 2 * time.Second

// explain returns failure. If a usage limit has caused it and Codex knows when that limit ends, the
// returned error also says when. If a WebSocket was refused and the turn can still be started
// again, explain returns the failure unchanged, since restart looks for that error.
func (t *Turn) explain(ctx context.Context, failure error) error {
	if t.request.Plan != nil && appserver.IsSocketRefused(failure) {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, ExplainTimeout)
	defer cancel()
	return t.current.place.Instance.ExplainLimit(ctx, failure, func(ctx context.Context) *codexrpc.Meter {
		if plan := t.current.member.Plan; plan != nil { // only an answer from after the failure says whether there is a reserve
			return plan.RateLimits(ctx, 0).Meter(t.current.place.counted(t.model))
		}
		return nil
	})
}

// recordSuccess records, at the first output, that the login works and what the provider accepts.
func (t *Turn) recordSuccess() {
	t.answered = true
	current := &t.current
	current.member.Login.Worked(current.place.counted(t.model))
	if current.thread != nil && !current.wasKept() && !current.place.OverHTTP {
		if process := current.place.Process; current.thread.FellBack() {
			process.SocketFailed(current.begun)
		} else {
			process.SocketWorked()
		}
	}
	if t.request.Plan == nil {
		return // the turn could not be started again, so no form was tried that the provider may refuse
	}
	accepts, model := current.place.Instance.Acceptance(), current.place.Model
	if t.mayAppendInstructions() {
		accepts.InstructionsAccepted(model)
	}
	switch {
	case current.triesParallelCalls:
		accepts.ParallelCallsAccepted(model)
	case t.serialReason != nil && accepts.ParallelCallsRefused(model):
		t.opener.Logger.Warn("the provider refuses requests in which this model may call several tools; from now on it calls one at a time",
			"model", model, "error", t.serialReason)
	}
}

// Close ends the turn. If delivered is true, the client has got the whole answer, and the thread is
// kept for the next request, if it can be kept. Otherwise Close unloads the thread in the background,
// and interrupts a turn that still runs. Further calls do nothing.
func (t *Turn) Close(delivered bool) {
	if delivered {
		t.keep()
	}
	if t.withdraw != nil {
		t.withdraw()
	}
	t.closeThread(t.current.onClose)
}

// closeThread unloads the thread and then calls done. Without a thread, it does nothing. It releases the
// claim on memory now if the turn has ended, else when the app-server has ended the work on the thread.
func (t *Turn) closeThread(done func()) {
	thread := t.current.thread
	if thread == nil {
		return
	}
	t.current.thread = nil
	if thread.TurnEnded() {
		t.request.Memory.Release()
		thread.Close(done)
	} else {
		closeThenRelease(thread, t.request.Memory, done)
	}
}

func closeThenRelease(thread *codexrpc.Thread, memory TurnMemory, done func()) {
	thread.Close(func() {
		memory.Release()
		done()
	})
}

// historyChain returns the hashes of the request's history, computed once; nil: they cannot be computed.
func (t *Turn) historyChain(lease Lease) *Chain {
	if t.chainComputed {
		return t.chain
	}
	t.chainComputed, t.chain = true, t.request.Chain
	if t.chain == nil {
		t.request.Compute(func() { t.chain = t.opener.Chain(lease, &t.request) })
	}
	return t.chain
}

// Chain returns the hashes of the history in the plan of a request; nil: they cannot be computed.
func (o *Opener) Chain(lease Lease, r *Request) *Chain {
	plan := r.Plan
	id := Identity{Site: strings.ToLower(r.Host), User: r.User, Thread: plan.Thread, EffortMayVary: effortMayVary(lease, plan)}
	chain, err := NewChain(id, plan.History, plan.Turn.Input)
	if err != nil {
		o.Logger.Warn("a conversation is not kept", "error", err)
	}
	return chain
}

// Kept returns about how many tokens the model would read if a request with this plan and chain went on in
// the kept thread that has the longest part of its history. found is false if there is no such thread.
func (o *Opener) Kept(ctx context.Context, lease Lease, plan *prompt.Plan, chain *Chain) (tokens int, found bool) {
	_, _, _ = lease.Resume(plan.Thread.Model, func(m Member) bool {
		if kept, link := m.Threads.find(ctx, chain.Links); !found && kept > 0 {
			tokens, found = kept, true
			for _, item := range plan.History[link.Items:] {
				tokens += len(item) / prompt.BytesPerToken
			}
			for i := range plan.Turn.Input {
				tokens += len(plan.Turn.Input[i].Text) / prompt.BytesPerToken
			}
		}
		return false // the thread stays where it is
	})
	return tokens, found
}

// awaitPlace waits until a process is ready, and returns the place for a thread on it. If the plan
// names no model, the place has the app-server's default model.
func (t *Turn) awaitPlace(ctx context.Context, member Member) (Place, error) {
	process := member.Process
	in, err := Connect(ctx, process)
	if err != nil {
		return Place{}, err
	}
	if in, err = process.AwaitAccount(ctx, in); err != nil {
		return Place{}, err
	}
	plan := t.request.Plan
	if plan.Picture {
		if err := checkPictures(ctx, in.Conn()); err != nil {
			return Place{}, err
		}
	}
	model := plan.Thread.Model
	if model == "" {
		if model, err = in.DefaultModel(ctx); err != nil {
			return Place{}, err
		}
	}
	reserve := member.Login.For(model).Reserve
	if reserve {
		model = codexrpc.ReserveModel
	}
	accepts := in.Acceptance()
	_, refused := accepts.ParallelCalls(model)
	modelInfo := in.Model(model)
	return Place{
		Process: process, Instance: in, Conn: in.Conn(), Model: model, Reserve: reserve,
		Instructions: prompt.Placement{
			Append: t.opener.Instructions == InstructionsAppend ||
				t.opener.Instructions == InstructionsAuto && accepts.Strict() && !accepts.Instructions(model),
			EmptyBase:   modelInfo.Lite && len(plan.Thread.DynamicTools) == 0,
			CodexPrompt: modelInfo.Prompt,
		},
		Serial: refused, OverHTTP: process.SocketsPaused(),
	}, nil
}

// accountTimeout bounds the wait for the account of a login before a turn that makes a picture.
const accountTimeout = 3 * time.Second

// checkPictures returns [turn.ErrNoPictures] if Codex offers no tool for pictures with this login.
// If the account is not known, it returns nil: the turn fails if there is no such tool.
func checkPictures(ctx context.Context, conn *codexrpc.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	if account, err := conn.Account(ctx); err == nil && !account.Pictures() {
		return turn.ErrNoPictures
	}
	return nil
}

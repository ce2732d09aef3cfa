package conversation

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
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

// Opener opens the sessions of a gateway.
type Opener struct {
	Upstream     Upstream
	Instructions Instructions
	Logger       *slog.Logger
}

// Request is the request for a turn.
type Request struct {
	Plan *prompt.Plan
	// Host and User identify the owner of the conversation.
	Host, User string
	// Live is the request's entry in the list of running requests.
	Live *status.Entry
	// Compute calls its argument, a function that takes long because it reads the whole history.
	// Compute may wait before the call, so that not too many such functions run at the same time.
	Compute func(func())
	// BeforeRestart is called before the turn is started again; if it fails, the turn is not. If the
	// turn is not started after all, undo is called. BeforeRestart may be nil.
	BeforeRestart func(context.Context) (undo func(), err error)
	// OnInput is called when Codex has decoded the images of the input. It may be nil.
	OnInput func()
	// Memory is what the turn needs in the app-server.
	Memory TurnMemory
}

// TurnMemory is the claim on an app-server for the turns of a request. Each thread that gets the
// request holds it until the thread is kept or the app-server has ended the work on it. This may be
// after the client has left.
type TurnMemory interface {
	Hold()
	Release()
}

// Session runs the turn of one choice of a request. It has the thread on which the turn runs, until
// the thread is kept for a later request or unloaded. A Session is not safe for concurrent use.
type Session struct {
	opener  *Opener
	request Request // its Plan is nil after ForgetPlan: the turn will not be started again
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
	answered      bool  // the turn has had an output

	answer      Answer        // what the client has got so far
	historyHash Hash          // hash of the history and the whole answer; zero: the thread will not be kept
	announced   chan struct{} // the announcement of the thread under historyHash, see [Threads.announce]
}

// attempt describes one start of the turn of a session.
type attempt struct {
	origin             Origin
	place              Place
	thread             *codexrpc.Thread // nil: there is none
	usageBefore        codexrpc.Usage   // what earlier turns of the thread have used
	triesParallelCalls bool             // see the function triesParallelCalls
	begun              time.Time        // when the turn was started, if the thread was not kept
	threads            *Threads         // where the thread may be kept later; nil: the thread will not be kept
	spareSettings      *settings        // the settings of a spare thread to start for a later request; nil: start none

	login          *loginstate.Login
	hasOtherLogins bool       // there are app-servers with another login
	memory         TurnMemory // held by the thread
	onClose        func()     // is called when the thread is kept or unloaded
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

// wasKept reports whether the thread was kept after an earlier request.
func (a *attempt) wasKept() bool { return a.origin == Continued || a.origin == Resumed }

// Reset makes s a new session for a request. The session has no thread yet.
func (s *Session) Reset(o *Opener, r Request) {
	plan := r.Plan
	*s = Session{
		opener: o, request: r,
		tools: plan.Tools, schema: string(plan.Turn.OutputSchema), effort: plan.Thread.Config.Effort(), model: plan.Thread.Model,
	}
}

// Thread returns the thread of the turn, or nil if there is none.
func (s *Session) Thread() *codexrpc.Thread { return s.current.thread }

// Place returns where the thread runs.
func (s *Session) Place() *Place { return &s.current.place }

// Spent returns the tokens that the thread had used before this request. If the request has the
// results of tool calls for which the turn waited, the tokens of the turn before the wait are
// included.
func (s *Session) Spent() codexrpc.Usage { return s.current.usageBefore }

// Origin returns where the thread comes from.
func (s *Session) Origin() Origin { return s.current.origin }

// explainTimeout bounds the time of each request that asks Codex for details about a failure.
const explainTimeout = 2 * time.Second

// Explain returns failure. If a usage limit has caused it and Codex knows when that limit ends, the
// returned error also says when. If a WebSocket was refused and the turn can still be started
// again, Explain returns the failure unchanged, since [Session.Restart] looks for that error.
func (s *Session) Explain(ctx context.Context, failure error) error {
	if s.request.Plan != nil && appserver.IsSocketRefused(failure) {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return s.current.thread.ExplainLimit(ctx, failure)
}

// Models returns the models of the app-server. The error for a failed turn may list them.
func (s *Session) Models(ctx context.Context) ([]codexrpc.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return s.current.place.Process.Models(ctx, s.current.place.Conn)
}

// RecordSuccess is called at the first output of the turn. It records that the login works, and
// which forms of request the provider has accepted.
func (s *Session) RecordSuccess() {
	s.answered = true
	current := &s.current
	current.login.Worked(s.model)
	if current.thread != nil && !current.wasKept() && !current.place.OverHTTP {
		if process := current.place.Process; current.thread.FellBack() {
			process.SocketFailed(current.begun)
		} else {
			process.SocketWorked()
		}
	}
	if s.request.Plan == nil {
		return // the turn could not be started again, so no form was tried that the provider may refuse
	}
	accepts, model := current.place.Acceptance, current.place.Model
	if s.mayAppendInstructions() {
		accepts.InstructionsAccepted(model)
	}
	switch {
	case current.triesParallelCalls:
		accepts.ParallelCallsAccepted(model)
	case s.serialReason != nil && accepts.ParallelCallsRefused(model):
		s.opener.Logger.Warn("the provider refuses requests in which this model may call several tools; from now on it calls one at a time",
			"model", model, "error", s.serialReason)
	}
}

// ForgetPlan drops the plan to free memory, since the turn will not be started again. It returns
// false if the plan was dropped before.
func (s *Session) ForgetPlan() (dropped bool) {
	dropped = s.request.Plan != nil
	s.request.Plan = nil
	return dropped
}

// Close ends the session. If the thread was not kept, Close unloads it in the background, and
// interrupts a turn that still runs.
func (s *Session) Close() {
	s.withdrawAnnouncement()
	s.current.close()
}

// CloseUnlessKeepable ends the session if its thread cannot be kept for a later request.
func (s *Session) CloseUnlessKeepable() {
	if s.current.threads == nil {
		s.Close()
	}
}

// close unloads the thread, if there is one. Its memory is released now if its turn has ended, and
// otherwise when the app-server has ended the work on the thread.
func (a *attempt) close() {
	if a.thread == nil {
		return
	}
	onClose := a.onClose
	if a.thread.TurnEnded() {
		a.memory.Release()
	} else {
		onClose = releaseThen(a.memory, onClose)
	}
	a.thread.Close(onClose)
	a.thread = nil
}

// releaseThen returns a function that releases memory and calls done.
func releaseThen(memory TurnMemory, done func()) func() {
	return func() {
		memory.Release()
		done()
	}
}

// historyChain returns the hashes of the request's history, or nil if the history cannot be hashed.
// Only the first call computes them.
func (s *Session) historyChain(lease Lease) *Chain {
	if s.chainComputed {
		return s.chain
	}
	s.chainComputed = true
	plan := s.request.Plan
	s.request.Compute(func() {
		id := Identity{Site: strings.ToLower(s.request.Host), User: s.request.User, Thread: plan.Thread, EffortMayVary: effortMayVary(lease, plan)}
		chain, err := NewChain(id, plan.History, plan.Turn.Input)
		if err != nil {
			s.opener.Logger.Warn("a conversation is not kept", "error", err)
		}
		s.chain = chain
	})
	return s.chain
}

// awaitPlace waits until a process is ready, and returns the place for a thread on it. If the plan
// names no model, the place has the app-server's default model.
func (s *Session) awaitPlace(ctx context.Context, process *appserver.Process) (Place, error) {
	conn, err := Connect(ctx, process)
	if err != nil {
		return Place{}, err
	}
	if conn, err = process.AwaitAccount(ctx, conn); err != nil {
		return Place{}, err
	}
	plan := s.request.Plan
	if plan.Picture {
		if err := checkPictures(ctx, conn); err != nil {
			return Place{}, err
		}
	}
	model := plan.Thread.Model
	if model == "" {
		if model, err = process.DefaultModel(ctx, conn); err != nil {
			return Place{}, err
		}
	}
	accepts := process.Acceptance(conn)
	_, refused := accepts.ParallelCalls(model)
	modelInfo := process.Model(model)
	return Place{
		Process: process, Conn: conn, Acceptance: accepts, Model: model,
		Instructions: prompt.Placement{
			Append: s.opener.Instructions == InstructionsAppend ||
				s.opener.Instructions == InstructionsAuto && accepts.Strict() && !accepts.Instructions(model),
			EmptyBase:   modelInfo.Lite && len(plan.Thread.DynamicTools) == 0,
			CodexPrompt: modelInfo.Prompt,
		},
		Serial: refused, OverHTTP: process.SocketsPaused(),
	}, nil
}

// accountTimeout bounds the wait for the account of a login before a turn that makes a picture.
const accountTimeout = 3 * time.Second

// checkPictures returns [turn.ErrNoPictures] if Codex does not offer its tool for pictures with
// this login. If Codex cannot report the account, checkPictures returns nil: the turn then starts,
// and fails if there is no such tool.
func checkPictures(ctx context.Context, conn *codexrpc.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	if account, err := conn.Account(ctx); err == nil && !account.Pictures() {
		return turn.ErrNoPictures
	}
	return nil
}

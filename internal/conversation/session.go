package conversation

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/status"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Instructions says where Codex puts the instructions of a conversation in the model's prompt.
type Instructions string

// The values of [Opener].Instructions.
const (
	InstructionsAuto    Instructions = "auto"    // replace, or append if the provider refuses to replace
	InstructionsReplace Instructions = "replace" // in the place of Codex's own prompt
	InstructionsAppend  Instructions = "append"  // behind Codex's own prompt
)

// Opener opens the sessions of a gateway.
type Opener struct {
	Upstream     Upstream
	Instructions Instructions
	Serial       bool // models call one tool at a time
	Logger       *slog.Logger
}

// Request is the request for a turn.
type Request struct {
	Plan *prompt.Plan
	// Host and User identify the owner of the conversation.
	Host, User string
	// Live is the request's entry in the list of running requests.
	Live *status.Entry
	// Compute runs a function that takes long because it reads the whole history.
	Compute func(func())
	// OnInput is called when Codex has decoded the images of the input. It may be nil.
	OnInput func()
}

// Session runs the turn of one choice of a request. It has the thread on which the turn runs, until
// the thread is kept for a later request or unloaded. A Session is not safe for concurrent use.
type Session struct {
	opener  *Opener
	request Request // without its plan once the turn will not be started again
	tools   prompt.ToolNames
	schema  string // of the answer
	effort  string // of the turn; empty: the model's own

	chain  *Chain // of the request; nil: it is not hashed, or has several choices
	hashed bool

	now      attempt
	waits    int   // how often the turn was started again after a wait
	moves    int   // how often a move was tried because the provider failed
	plain    bool  // the provider has refused the reasoning that was remembered
	serial   error // why the turn was started in the form with one call at a time; nil: it was not
	answered bool

	said      Answer
	after     Hash          // hash of the history with the whole answer; zero: the thread is not to be kept
	announced *announcement // of the thread under after; nil: there is none
}

// attempt describes one start of a turn: on which thread, and how.
type attempt struct {
	origin   Origin
	place    Place
	thread   *codexrpc.Thread // nil: there is none
	spent    codexrpc.Usage   // by earlier turns of the thread
	reasoned bool             // the thread was given reasoning that was remembered
	parallel bool             // a lite model has the full form, which the provider may refuse
	in       *Threads         // of its process; nil: the thread will not be kept
	prepare  *settings        // of the thread that is to be prepared for a later request; nil: none is

	login  *loginstate.Login
	others bool   // there are other logins
	closed func() // called once the thread is unloaded
}

// Origin says where the thread of a turn comes from.
type Origin string

// The values of Origin.
const (
	New       Origin = "new"
	Prepared  Origin = "prepared"  // the thread was started before its request
	Continued Origin = "continued" // it has had turns before
	Resumed   Origin = "resumed"   // its turn has waited for the results of calls
	Restored  Origin = "restored"  // it was given the reasoning of answers in its history
)

// goesOn reports whether the thread has had earlier turns and was kept for this request.
func (a *attempt) goesOn() bool { return a.origin == Continued || a.origin == Resumed }

// Reset makes s a new session for a request. The session has no thread yet.
func (s *Session) Reset(o *Opener, r Request) {
	plan := r.Plan
	*s = Session{
		opener: o, request: r,
		tools: plan.Tools, schema: string(plan.Turn.OutputSchema), effort: plan.Thread.Config.Effort(),
	}
}

// Thread returns the thread of the turn, or nil if there is none.
func (s *Session) Thread() *codexrpc.Thread { return s.now.thread }

// Place returns where the thread runs.
func (s *Session) Place() *Place { return &s.now.place }

// Spent returns the tokens that the thread had used before the turn. For a turn that was resumed
// after the results of tool calls, they include the tokens of its earlier part.
func (s *Session) Spent() codexrpc.Usage { return s.now.spent }

// Origin returns where the thread comes from.
func (s *Session) Origin() Origin {
	if s.now.reasoned {
		return Restored
	}
	return s.now.origin
}

// explainTimeout bounds the requests to Codex about a failure.
const explainTimeout = 2 * time.Second

// Explain returns failure with the time at which the limit that caused it ends, if that time is
// known. It returns the error of a refused WebSocket as it is while the turn can be started again
// over HTTP, since [Session.Again] looks for that error.
func (s *Session) Explain(ctx context.Context, failure error) error {
	if s.request.Plan != nil && appserver.IsSocketRefused(failure) {
		return failure
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return s.now.thread.ExplainLimit(ctx, failure)
}

// Models returns the models of the app-server. The error for a failed turn may list them.
func (s *Session) Models(ctx context.Context) ([]codexrpc.Model, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return s.now.place.Process.Models(ctx, s.now.place.Conn)
}

// Answered records that the login works, and which forms of request the provider has accepted.
func (s *Session) Answered() {
	s.answered = true
	now := &s.now
	now.login.Worked()
	if now.thread != nil && now.thread.FellBack() {
		now.place.Process.SocketFailed()
	}
	if s.request.Plan == nil {
		return // nothing new was tried
	}
	accepts, model := now.place.Acceptance, now.place.Model
	if s.mayAppend() {
		accepts.InstructionsAccepted(model)
	}
	switch {
	case now.parallel:
		accepts.ParallelCallsAccepted(model)
	case s.serial != nil && accepts.ParallelCallsRefused(model):
		s.opener.Logger.Warn("the provider refuses requests in which this model may call several tools; from now on it calls one at a time",
			"model", model, "error", s.serial)
	}
}

// ForgetPlan drops the plan to free memory, since the turn will not be started again. It returns
// false if the plan was dropped before.
func (s *Session) ForgetPlan() (now bool) {
	now = s.request.Plan != nil
	s.request.Plan = nil
	return now
}

// Close ends the session. If the thread was not kept, Close unloads it in the background, and
// interrupts a turn that still runs.
func (s *Session) Close() {
	s.withdraw()
	s.now.close()
}

// LetGo ends the session now if its thread cannot be kept.
func (s *Session) LetGo() {
	if s.now.in == nil {
		s.Close()
	}
}

// close unloads the thread, if there is one.
func (a *attempt) close() {
	if a.thread != nil {
		a.thread.Close(a.closed)
		a.thread = nil
	}
}

// hash returns the chain of the request's history (its hashes), or nil if the history cannot be
// hashed. Only the first call computes the chain.
func (s *Session) hash(lease Lease) *Chain {
	if s.hashed {
		return s.chain
	}
	s.hashed = true
	plan := s.request.Plan
	s.request.Compute(func() {
		id := Identity{Site: strings.ToLower(s.request.Host), User: s.request.User, Thread: plan.Thread, AnyEffort: anyEffort(lease, plan)}
		chain, err := NewChain(id, plan.History, plan.Turn.Input)
		if err != nil {
			s.opener.Logger.Warn("a conversation is not kept", "error", err)
		}
		s.chain = chain
	})
	return s.chain
}

// place waits until a process is ready, and returns the place for a thread on it. If the plan names
// no model, the place has the app-server's default model.
func (s *Session) place(ctx context.Context, process *appserver.Process) (Place, error) {
	conn, err := Connect(ctx, process)
	if err != nil {
		return Place{}, err
	}
	if conn, err = process.AwaitAccount(ctx, conn); err != nil {
		return Place{}, err
	}
	plan := s.request.Plan
	if plan.Pictures {
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
	own := process.Model(model)
	return Place{
		Process: process, Conn: conn, Acceptance: accepts, Model: model,
		Instructions: prompt.Placement{
			Append: s.opener.Instructions == InstructionsAppend ||
				s.opener.Instructions == InstructionsAuto && accepts.Strict() && !accepts.Instructions(model),
			Once: own.Lite && len(plan.Thread.DynamicTools) == 0,
			Own:  own.Prompt,
		},
		Serial: refused || s.opener.Serial,
	}, nil
}

// accountTime bounds the wait for the account of a login before a turn that makes a picture.
const accountTime = 3 * time.Second

// checkPictures returns [turn.ErrNoPictures] if Codex does not offer its tool for pictures with
// this login. If Codex cannot report the account, checkPictures returns nil: the turn then starts,
// and fails if there is no such tool.
func checkPictures(ctx context.Context, conn *codexrpc.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, accountTime)
	defer cancel()
	if account, err := conn.Account(ctx); err == nil && !account.Pictures() {
		return turn.ErrNoPictures
	}
	return nil
}

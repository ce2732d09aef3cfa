package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// turnFailure describes the failure of a turn before its first output.
type turnFailure struct {
	err                 error
	loginUnusable       bool // the login cannot serve the turn, as it is spent, refused or may not use the model; false if processReplaced is true
	processReplaced     bool // the login was unusable, but the process has a newer app-server now, perhaps with another login
	providerFailed      bool // the provider fails, perhaps only for this login
	instructionsRefused bool // the provider refuses instructions in the place of Codex's own prompt
}

// remedy is a way to restart a turn that has failed before its first output.
type remedy struct {
	name string
	// mayHelp reports, before any failure, whether the remedy may help if the turn fails. If it
	// returns true, the request stays in memory, since each remedy needs the request. A remedy
	// without mayHelp is tried only if the request has stayed in memory because of another remedy.
	mayHelp func(*Session) bool
	// fits reports whether the remedy may help after this failure.
	fits func(*Session, *turnFailure) bool
	// start starts the turn again. If that is not possible, start returns false and an error. The
	// error is the failure of the turn or, if another login is likely to work sooner, the failure
	// of that login.
	start func(context.Context, *Session, *turnFailure) (started bool, err error)
	// optional says what Restart does when start returns false. If optional is true, Restart tries
	// the later remedies. Otherwise Restart gives up.
	optional bool
}

// remedies are in the order of preference. Restart tries the first remedy that fits. It tries the
// next one that fits only if the first one is optional and does not start the turn.
var remedies = [...]remedy{{
	name:  "the app-server that serves now",
	fits:  func(_ *Session, f *turnFailure) bool { return f.processReplaced },
	start: restartOnNewThread,
}, {
	name: "another login for a failing provider", optional: true,
	mayHelp: func(s *Session) bool { return s.current.hasOtherLogins },
	fits: func(s *Session, f *turnFailure) bool {
		return f.providerFailed && s.current.hasOtherLogins && s.loginSwitches == 0
	},
	start: func(ctx context.Context, s *Session, f *turnFailure) (bool, error) {
		s.loginSwitches++
		return s.startWithOtherLogin(ctx, f)
	},
}, {
	name:    "another login for one that is spent or signed out",
	mayHelp: func(s *Session) bool { return s.current.hasOtherLogins },
	fits:    func(_ *Session, f *turnFailure) bool { return f.loginUnusable },
	start: func(ctx context.Context, s *Session, f *turnFailure) (bool, error) {
		return s.startWithOtherLogin(ctx, f)
	},
}, {
	name:    "another login for one that has no pictures left",
	mayHelp: func(s *Session) bool { return s.current.hasOtherLogins && s.request.Plan.Picture },
	fits:    func(_ *Session, f *turnFailure) bool { return noPicturesLeft(f.err) },
	start: func(ctx context.Context, s *Session, f *turnFailure) (bool, error) {
		return s.startWithOtherLogin(ctx, f)
	},
}, {
	name:    "a new thread instead of a kept one",
	mayHelp: func(s *Session) bool { return s.current.wasKept() },
	fits: func(s *Session, f *turnFailure) bool {
		return s.current.wasKept() && !errors.Is(f.err, turn.ErrShutdown)
	},
	start: restartOnNewThread,
}, {
	name:    "no reasoning of another login",
	mayHelp: (*Session).hasReasoning,
	fits: func(s *Session, f *turnFailure) bool {
		return s.hasReasoning() && failures.RefusesReasoning(f.err)
	},
	start: func(ctx context.Context, s *Session, _ *turnFailure) (bool, error) {
		s.request.Plan, s.chain.HasReasoning = withoutReasoning(s.request.Plan), false
		return true, s.startAt(ctx, s.current.place)
	},
}, {
	name:    "the instructions behind Codex's own prompt",
	mayHelp: (*Session).mayAppendInstructions,
	fits:    func(_ *Session, f *turnFailure) bool { return f.instructionsRefused },
	start: func(ctx context.Context, s *Session, _ *turnFailure) (bool, error) {
		place := s.current.place
		place.Instructions.Append = true
		return true, s.startAt(ctx, place)
	},
}, {
	name:    "one call at a time",
	mayHelp: func(s *Session) bool { return s.current.triesParallelCalls },
	fits: func(s *Session, f *turnFailure) bool {
		return s.current.triesParallelCalls && failures.RejectsRequest(f.err)
	},
	start: func(ctx context.Context, s *Session, f *turnFailure) (bool, error) {
		place := s.current.place
		place.Serial = true
		s.serialReason = f.err
		return true, s.startAt(ctx, place)
	},
}, {
	// This remedy does not fit if the turn itself failed or was silent: the cause is then the
	// provider, and a new thread would not help.
	name:    "a new thread instead of a prepared one",
	mayHelp: func(s *Session) bool { return s.current.origin == Prepared },
	fits: func(s *Session, f *turnFailure) bool {
		return s.current.origin == Prepared && !errors.Is(f.err, turn.ErrShutdown) && !errors.Is(f.err, turn.ErrIdle) && !errors.As(f.err, new(*codexrpc.TurnError))
	},
	start: restartOnNewThread,
}, {
	name:  "HTTP instead of a WebSocket",
	fits:  func(_ *Session, f *turnFailure) bool { return appserver.IsSocketRefused(f.err) },
	start: func(ctx context.Context, s *Session, _ *turnFailure) (bool, error) { return true, s.startOverHTTP(ctx) },
}, {
	name:    "a wait for a failing provider",
	mayHelp: (*Session).mayRetry,
	fits:    func(s *Session, f *turnFailure) bool { return s.mayRetry() && failures.IsTransient(f.err) },
	start:   func(ctx context.Context, s *Session, f *turnFailure) (bool, error) { return s.startAfterWait(ctx, f) },
}}

// Repeatable reports whether the request has to stay in memory, since the turn may have to be
// started again.
func (s *Session) Repeatable() bool {
	for i := range remedies {
		if mayHelp := remedies[i].mayHelp; mayHelp != nil && mayHelp(s) {
			return true
		}
	}
	return false
}

// hasReasoning reports whether the history of the client's request has reasoning. Such reasoning
// comes from the client or from stored responses. It is encrypted: only the login that made it can
// use it.
func (s *Session) hasReasoning() bool { return s.chain != nil && s.chain.HasReasoning }

// withoutReasoning returns a plan whose history has no reasoning.
func withoutReasoning(plan *prompt.Plan) *prompt.Plan {
	without := *plan
	without.History = slices.DeleteFunc(slices.Clone(plan.History), func(item json.RawMessage) bool {
		var kind wirejson.Value
		wirejson.Value(item).Pick(wirejson.Into("type", &kind))
		return kind.Is(typeReasoning)
	})
	return &without
}

// mayAppendInstructions reports whether the provider may still refuse instructions in the place of
// Codex's own prompt. After a refusal, the turn is started again with the instructions behind that
// prompt. Once the provider has accepted instructions with this model, mayAppendInstructions
// returns false, so the request need not stay in memory.
func (s *Session) mayAppendInstructions() bool {
	place := &s.current.place
	return s.opener.Instructions == InstructionsAuto && !place.Instructions.Append && !place.Acceptance.Instructions(place.Model)
}

// mayRetry reports whether the turn may be started again after a wait, if the provider fails. The
// number of such starts is limited.
func (s *Session) mayRetry() bool { return s.retries < s.current.place.Process.ProviderRetries() }

// Restart starts a turn again that has failed before its first output, if one of the remedies fits.
// If Restart has tried to start the turn, it returns true and the error of that start, or nil.
// Otherwise it returns false and an error: the failure of the turn or, if another login is likely
// to work sooner, the failure of that login.
func (s *Session) Restart(ctx context.Context, failure error) (started bool, err error) {
	f := s.recordFailure(failure)
	if s.request.Plan == nil {
		return false, failure // ForgetPlan was called
	}
	for i := range remedies {
		r := &remedies[i]
		if !r.fits(s, &f) {
			continue
		}
		undo := func() {}
		if before := s.request.BeforeRestart; before != nil {
			if undo, err = before(ctx); err != nil {
				return false, failure
			}
		}
		if started, err = r.start(ctx, s, &f); !started {
			undo()
		} else {
			s.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a turn was started again", slog.String("with", r.name))
		}
		if started || !r.optional {
			return started, err
		}
	}
	return false, failure
}

// recordFailure finds out the cause of a failure. If the cause is the login or the provider,
// recordFailure records that for later requests. Restart therefore calls recordFailure even if it
// cannot start this turn again.
func (s *Session) recordFailure(failure error) turnFailure {
	f := turnFailure{err: failure, instructionsRefused: s.instructionsRefused(failure)}
	s.recordPicture(failure)
	cause := loginstate.CauseOf(failure)
	if cause.OfLogin() {
		f.processReplaced = s.current.place.isOutdated()
		f.loginUnusable = !f.processReplaced
	}
	f.providerFailed = cause != "" && !cause.OfLogin()
	e, isTurn := errors.AsType[*codexrpc.TurnError](failure)
	forbidsModel := isTurn && failures.ForbidsModel(e)
	f.loginUnusable = f.loginUnusable || forbidsModel
	switch login := s.current.login; {
	case forbidsModel, f.loginUnusable && loginstate.IsPlainRefusal(e):
		login.RefuseModel(s.model, failure)
	case f.loginUnusable, f.providerFailed && !s.answered:
		login.Fail(failure, 0)
	}
	return f
}

// instructionsRefused reports whether the turn has failed because the provider refuses instructions
// in the place of Codex's own prompt. It records the refusal for later turns.
func (s *Session) instructionsRefused(failure error) bool {
	place := &s.current.place
	if s.opener.Instructions != InstructionsAuto || place.Instructions.Append || !failures.RefusesInstructions(failure) {
		return false
	}
	if place.Acceptance.InstructionsRefused(place.Model) {
		s.opener.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return true
}

// restartOnNewThread calls [Session.startOnNewThread]. Some remedies have it in their field start.
func restartOnNewThread(ctx context.Context, s *Session, _ *turnFailure) (started bool, err error) {
	return true, s.startOnNewThread(ctx)
}

// startOnNewThread starts the turn on a new thread of the same process.
func (s *Session) startOnNewThread(ctx context.Context) error {
	place, err := s.awaitPlace(ctx, s.current.place.Process)
	if err != nil {
		return err
	}
	return s.startAt(ctx, place)
}

// startOverHTTP starts the turn on a new thread of the same process. For that thread, Codex uses
// HTTP instead of a WebSocket to the provider.
func (s *Session) startOverHTTP(ctx context.Context) error {
	place, err := s.awaitPlace(ctx, s.current.place.Process)
	if err != nil {
		return err
	}
	place.OverHTTP = true
	return s.startAt(ctx, place)
}

// startAt starts the turn on a new thread at the given place, on the same process as before.
func (s *Session) startAt(ctx context.Context, place Place) error {
	plan := s.request.Plan
	thread, err := place.settings(plan).start(ctx, s.opener.Logger)
	if err != nil {
		return err
	}
	current := &s.current
	failed := attempt{thread: current.thread, memory: current.memory, onClose: func() {}}
	failed.close()
	return s.start(ctx, attempt{
		origin: New, place: place, thread: thread, triesParallelCalls: triesParallelCalls(place, plan), threads: current.threads,
		login: current.login, hasOtherLogins: current.hasOtherLogins, onClose: current.onClose,
	})
}

const (
	// firstRetryWait is how long startAfterWait waits before the first retry. Each later wait is
	// twice as long as the wait before it, but at most maxRetryWait, since clients also retry by
	// themselves.
	firstRetryWait = 200 * time.Millisecond
	maxRetryWait   = 2 * time.Second
)

// startAfterWait waits and starts the turn again on a new thread. If the client leaves during the
// wait, startAfterWait returns false and the failure of the turn. The new thread uses HTTP instead
// of a WebSocket if Codex already had to fall back to HTTP. It also does so at the last retry,
// since no further start could follow if the provider refused the WebSocket.
func (s *Session) startAfterWait(ctx context.Context, f *turnFailure) (started bool, err error) {
	timer := time.NewTimer(min(firstRetryWait<<min(s.retries, 8), maxRetryWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, f.err
	}
	s.retries++
	if s.current.place.OverHTTP || s.current.thread.FellBack() || !s.mayRetry() {
		return true, s.startOverHTTP(ctx)
	}
	return true, s.startOnNewThread(ctx)
}

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
	opening             *opening // the turn could not be started; nil: it has run
	loginUnusable       bool     // the turn needs another login: this login is spent or refused, or may not use the model
	processReplaced     bool     // the login was unusable, but the process has a newer app-server now, perhaps with another login
	providerFailed      bool     // the provider fails, perhaps only for this login
	instructionsRefused bool     // the provider refuses instructions in the place of Codex's own prompt
}

// remedy is a way to restart a turn that has failed before its first output.
type remedy struct {
	name string
	// mayHelp reports, before any failure, whether the remedy may help if the turn fails. If it
	// returns true, the request stays in memory, since each remedy needs the request. A remedy
	// without mayHelp is tried only if the request has stayed in memory because of another remedy.
	mayHelp func(*Turn) bool
	// fits reports whether the remedy may help after this failure.
	fits func(*Turn, *turnFailure) bool
	// start starts the turn again and returns true, with the error of the start or nil. Or it returns false
	// and the failure of the turn or, if another login is likely to work sooner, the failure of that login.
	start func(context.Context, *Turn, *turnFailure) (started bool, err error)
	// optional: the later remedies are tried if start returns false. Without optional, the turn has failed.
	optional bool
	// opening is true for a remedy of a turn that could not be started. The other remedies are for a
	// turn that has run.
	opening bool
}

// remedies are in the order of preference. The first remedy that fits is tried, and the next one that
// fits only if the first one is optional and does not start the turn.
var remedies = [...]remedy{{
	name: "a login that can make pictures", opening: true,
	fits: func(_ *Turn, f *turnFailure) bool { return errors.Is(f.err, turn.ErrNoPictures) },
	start: func(ctx context.Context, t *Turn, f *turnFailure) (bool, error) {
		next, opened, _ := t.openWithOtherLogin(ctx, f.opening.lease, t.current.member)
		if !opened {
			return false, f.err
		}
		return true, t.start(ctx, next)
	},
}, {
	name: "another process for one that is gone", opening: true,
	fits: func(t *Turn, f *turnFailure) bool {
		return t.current.member.Process != nil && t.current.thread == nil && !f.opening.moved && isGone(f.err)
	},
	start: restartOnOtherProcess,
}, {
	// The spare thread or its process may have ended unnoticed while the thread waited.
	name: "a new thread instead of a spare one", opening: true,
	fits: func(t *Turn, _ *turnFailure) bool { return t.current.origin == Prepared },
	start: func(ctx context.Context, t *Turn, f *turnFailure) (started bool, err error) {
		f.opening = &opening{lease: f.opening.lease, spareSettings: t.current.spareSettings}
		t.closeThread(t.current.onClose)
		t.current = attempt{}
		return true, t.startOnLeastBusy(ctx, f.opening)
	},
}, {
	name:  "the app-server that serves now",
	fits:  func(_ *Turn, f *turnFailure) bool { return f.processReplaced },
	start: restartOnNewThread,
}, {
	name: "another login for a failing provider", optional: true,
	mayHelp: func(t *Turn) bool { return t.current.hasOtherLogins },
	fits: func(t *Turn, f *turnFailure) bool {
		return f.providerFailed && t.current.hasOtherLogins && t.loginSwitches == 0
	},
	start: func(ctx context.Context, t *Turn, f *turnFailure) (bool, error) {
		t.loginSwitches++
		return startWithOtherLogin(ctx, t, f)
	},
}, {
	// Such a thread is not kept: the next turn is to use the model again as soon as the plan allows it.
	name:    "the Luna Reserve of a spent plan",
	mayHelp: func(t *Turn) bool { return t.current.place.Process.LunaReserve() && !t.current.place.Reserve },
	fits: func(t *Turn, f *turnFailure) bool {
		login := t.current.member.Login
		return f.loginUnusable && !t.current.place.Reserve && login.For(t.model).Reserve && !t.opener.hasOtherFreeLogin(login, t.model)
	},
	start: func(ctx context.Context, t *Turn, _ *turnFailure) (bool, error) {
		t.current.threads = nil
		return true, t.startOnNewThread(ctx, false)
	},
}, {
	name:    "another login for one that is spent or signed out",
	mayHelp: func(t *Turn) bool { return t.current.hasOtherLogins },
	fits:    func(_ *Turn, f *turnFailure) bool { return f.loginUnusable },
	start:   startWithOtherLogin,
}, {
	name:    "another login for one that has no pictures left",
	mayHelp: func(t *Turn) bool { return t.current.hasOtherLogins && t.request.Plan.Picture },
	fits:    func(_ *Turn, f *turnFailure) bool { return noPicturesLeft(f.err) },
	start:   startWithOtherLogin,
}, {
	name:    "a new thread instead of a kept one",
	mayHelp: func(t *Turn) bool { return t.current.wasKept() },
	fits: func(t *Turn, f *turnFailure) bool {
		return t.current.wasKept() && !errors.Is(f.err, turn.ErrShutdown)
	},
	start: restartOnNewThread,
}, {
	name:    "no reasoning of another login",
	mayHelp: (*Turn).hasReasoning,
	fits: func(t *Turn, f *turnFailure) bool {
		return t.hasReasoning() && failures.RefusesReasoning(f.err)
	},
	start: func(ctx context.Context, t *Turn, _ *turnFailure) (bool, error) {
		t.request.Plan, t.chain.HasReasoning = withoutReasoning(t.request.Plan), false
		return true, t.startAt(ctx, t.current.place)
	},
}, {
	name:    "the instructions behind Codex's own prompt",
	mayHelp: (*Turn).mayAppendInstructions,
	fits:    func(_ *Turn, f *turnFailure) bool { return f.instructionsRefused },
	start: func(ctx context.Context, t *Turn, _ *turnFailure) (bool, error) {
		place := t.current.place
		place.Instructions.Append = true
		return true, t.startAt(ctx, place)
	},
}, {
	name:    "one call at a time",
	mayHelp: func(t *Turn) bool { return t.current.triesParallelCalls },
	fits: func(t *Turn, f *turnFailure) bool {
		return t.current.triesParallelCalls && failures.RejectsRequest(f.err)
	},
	start: func(ctx context.Context, t *Turn, f *turnFailure) (bool, error) {
		place := t.current.place
		place.Serial = true
		t.serialReason = f.err
		return true, t.startAt(ctx, place)
	},
}, {
	// Not after ErrIdle or a TurnError: the provider has caused these, and a new thread would not help.
	name:    "a new thread instead of a prepared one",
	mayHelp: func(t *Turn) bool { return t.current.origin == Prepared },
	fits: func(t *Turn, f *turnFailure) bool {
		return t.current.origin == Prepared && !errors.Is(f.err, turn.ErrShutdown) && !errors.Is(f.err, turn.ErrIdle) && !errors.As(f.err, new(*codexrpc.TurnError))
	},
	start: restartOnNewThread,
}, {
	name: "HTTP instead of a WebSocket",
	fits: func(_ *Turn, f *turnFailure) bool { return appserver.IsSocketRefused(f.err) },
	start: func(ctx context.Context, t *Turn, _ *turnFailure) (bool, error) {
		return true, t.startOnNewThread(ctx, true)
	},
}, {
	name:    "a wait for a failing provider",
	mayHelp: (*Turn).mayRetry,
	fits:    func(t *Turn, f *turnFailure) bool { return t.mayRetry() && failures.IsTransient(f.err) },
	start:   startAfterWait,
}}

// repeatable reports whether the request has to stay in memory for another start of the turn.
func (t *Turn) repeatable() bool {
	return slices.ContainsFunc(remedies[:], func(r remedy) bool { return r.mayHelp != nil && r.mayHelp(t) })
}

// hasReasoning reports whether the history has reasoning, from the client or stored responses. Reasoning is
// encrypted: only the login that made it can use it.
func (t *Turn) hasReasoning() bool { return t.chain != nil && t.chain.HasReasoning }

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
func (t *Turn) mayAppendInstructions() bool {
	place := &t.current.place
	return t.opener.Instructions == InstructionsAuto && !place.Instructions.Append && !place.Instance.Acceptance().Instructions(place.Model)
}

// mayRetry reports whether the turn may be started again, after a wait, if the provider fails.
func (t *Turn) mayRetry() bool { return t.retries < t.current.place.Instance.ProviderRetries() }

// restart starts a turn again that failed before its first output, if a remedy fits (tryRemedies).
func (t *Turn) restart(ctx context.Context, failure error) (started bool, err error) {
	f := t.recordFailure(failure)
	if t.request.Plan == nil {
		return false, failure // commit was called
	}
	return t.tryRemedies(ctx, &f)
}

// tryRemedies tries the remedies that fit a failure. If it has tried to start the turn, it returns
// true and the error of that start, or nil. Otherwise it returns false and an error: the failure of
// the turn or, if another login is likely to work sooner, the failure of that login.
func (t *Turn) tryRemedies(ctx context.Context, f *turnFailure) (started bool, err error) {
	for i := range remedies {
		r := &remedies[i]
		if r.opening != (f.opening != nil) || !r.fits(t, f) {
			continue
		}
		undo := func() {}
		if !r.opening {
			if undo, err = t.request.BeforeStart(ctx); err != nil {
				return false, f.err
			}
		}
		if started, err = r.start(ctx, t, f); !started {
			undo() // BeforeStart was called for nothing
		} else {
			t.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a turn was started again", slog.String("with", r.name), slog.Any("error", f.err))
		}
		if started || !r.optional {
			return started, err
		}
	}
	return false, f.err
}

// recordFailure finds out the cause of a failure. If the cause is the login or the provider,
// recordFailure records that for later requests, even if this turn cannot be started again.
func (t *Turn) recordFailure(failure error) turnFailure {
	f := turnFailure{err: failure, instructionsRefused: t.instructionsRefused(failure)}
	if refused, ok := errors.AsType[*turn.PictureError](failure); ok && refused.Spent {
		t.current.member.Login.SpendPictures(refused.ResetsAt)
	}
	cause := loginstate.CauseOf(failure)
	if cause.OfLogin() {
		serving := t.current.place.Process.Serving() // new turns run on it
		f.processReplaced = serving != nil && serving != t.current.place.Conn
		f.loginUnusable = !f.processReplaced
	}
	f.providerFailed = cause != "" && !cause.OfLogin()
	e, isTurn := errors.AsType[*codexrpc.TurnError](failure)
	forbidsModel := isTurn && failures.ForbidsModel(e)
	f.loginUnusable = f.loginUnusable || forbidsModel
	switch login := t.current.member.Login; {
	case forbidsModel, f.loginUnusable && loginstate.IsPlainRefusal(e): // if loginUnusable, failure is a TurnError
		login.RefuseModel(t.model, failure)
	case f.loginUnusable, f.providerFailed && !t.answered: // with an output, the provider has answered
		login.Fail(t.current.place.counted(t.model), failure, 0)
	}
	return f
}

// instructionsRefused reports whether the turn has failed because the provider refuses instructions
// in the place of Codex's own prompt. It records the refusal for later turns.
func (t *Turn) instructionsRefused(failure error) bool {
	place := &t.current.place
	if t.opener.Instructions != InstructionsAuto || place.Instructions.Append || !failures.RefusesInstructions(failure) {
		return false
	}
	if place.Instance.Acceptance().InstructionsRefused(place.Model) {
		t.opener.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return true
}

// restartOnNewThread is the field start of some remedies.
func restartOnNewThread(ctx context.Context, t *Turn, _ *turnFailure) (started bool, err error) {
	return true, t.startOnNewThread(ctx, false)
}

// startOnNewThread starts the turn on a new thread of the same process. If overHTTP is true, Codex
// uses HTTP for that thread instead of a WebSocket to the provider.
func (t *Turn) startOnNewThread(ctx context.Context, overHTTP bool) error {
	place, err := t.awaitPlace(ctx, t.current.member)
	if err != nil {
		return err
	}
	place.OverHTTP = place.OverHTTP || overHTTP
	return t.startAt(ctx, place)
}

// startAt starts the turn on a new thread at the given place, on the same process as before.
func (t *Turn) startAt(ctx context.Context, place Place) error {
	plan := t.request.Plan
	thread, err := place.settings(plan).start(ctx, t.opener.Logger)
	if err != nil {
		return err
	}
	current := &t.current
	t.closeThread(func() {}) // the next thread keeps onClose
	return t.start(ctx, attempt{
		origin: New, member: current.member, place: place, thread: thread, triesParallelCalls: triesParallelCalls(place, plan),
		threads: current.threads, hasOtherLogins: current.hasOtherLogins, onClose: current.onClose,
	})
}

const (
	// firstRetryWait is the wait before the first retry. Each later one is twice as long, but at
	// most maxRetryWait, since clients also retry by themselves.
	firstRetryWait = 200 * time.Millisecond
	maxRetryWait   = 2 * time.Second
)

// startAfterWait waits and starts the turn on a new thread, or returns false and the failure if the client
// leaves meanwhile. The thread uses HTTP if Codex has already fallen back to HTTP. It also uses HTTP at the
// last retry: if the provider refused a WebSocket then, no other start could follow.
func startAfterWait(ctx context.Context, t *Turn, f *turnFailure) (started bool, err error) {
	timer := time.NewTimer(min(firstRetryWait<<min(t.retries, 8), maxRetryWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, f.err
	}
	t.retries++
	return true, t.startOnNewThread(ctx, t.current.place.OverHTTP || t.current.thread.FellBack() || !t.mayRetry())
}

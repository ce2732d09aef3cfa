package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/failures"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
	"github.com/caddy-codex/caddy-codex/internal/wirejson"
)

// failed is the failure of a turn before its first output, with what is known about the cause.
type failed struct {
	err          error
	account      bool // the login is spent or signed out
	outdated     bool // like account, but the process was started again since, perhaps with another login
	provider     bool // the provider fails, perhaps not for another login
	instructions bool // the provider refuses instructions in the place of Codex's own prompt
}

// remedy is a way to restart a turn that has failed before its first output.
type remedy struct {
	name string
	// open reports, before any failure, whether the remedy may help if the turn fails. If so, the
	// request stays in memory, since each remedy needs it. A remedy without open is tried only if
	// the request has stayed there for another one.
	open func(*Session) bool
	// fits reports whether the remedy may help after a failure.
	fits func(*Session, *failed) bool
	// start starts the turn again. If that is not possible, start returns false and an error: the
	// failure of the turn, or that of another login if that login is likely to work sooner.
	start func(context.Context, *Session, *failed) (started bool, err error)
	// optional means that Again tries the later remedies if start returns false. If optional is
	// false, Again then gives up.
	optional bool
}

// remedies are the remedies in the order in which Again tries them. It tries the first that fits.
var remedies = [...]remedy{{
	name:  "the app-server that serves now",
	fits:  func(_ *Session, f *failed) bool { return f.outdated },
	start: startAfresh,
}, {
	name: "another login for a failing provider", optional: true,
	open: func(s *Session) bool { return s.now.others },
	fits: func(s *Session, f *failed) bool { return f.provider && s.moves == 0 },
	start: func(ctx context.Context, s *Session, f *failed) (bool, error) {
		s.moves++
		return s.move(ctx, f)
	},
}, {
	name:  "another login for one that is spent or signed out",
	open:  func(s *Session) bool { return s.now.others },
	fits:  func(_ *Session, f *failed) bool { return f.account },
	start: func(ctx context.Context, s *Session, f *failed) (bool, error) { return s.move(ctx, f) },
}, {
	name:  "another login for one that has no pictures left",
	open:  func(s *Session) bool { return s.now.others && s.request.Plan.Pictures },
	fits:  func(_ *Session, f *failed) bool { return noPicturesLeft(f.err) },
	start: func(ctx context.Context, s *Session, f *failed) (bool, error) { return s.move(ctx, f) },
}, {
	name:  "a new thread instead of a kept one",
	open:  func(s *Session) bool { return s.now.goesOn() },
	fits:  func(s *Session, f *failed) bool { return s.now.goesOn() && !errors.Is(f.err, turn.ErrShutdown) },
	start: startAfresh,
}, {
	name: "no reasoning that was remembered",
	open: func(s *Session) bool { return s.now.reasoned },
	fits: func(s *Session, f *failed) bool {
		return s.now.reasoned && !f.instructions && failures.APIError(f.err).Status == http.StatusBadRequest
	},
	start: func(ctx context.Context, s *Session, _ *failed) (bool, error) {
		s.forget()
		return true, s.startAt(ctx, s.now.place)
	},
}, {
	name: "no reasoning of another login", optional: true,
	open: (*Session).hasReasoning,
	fits: func(s *Session, f *failed) bool {
		return s.hasReasoning() && failures.RefusesReasoning(f.err)
	},
	start: func(ctx context.Context, s *Session, f *failed) (bool, error) {
		without := withoutReasoning(s.request.Plan)
		if len(without.History) == len(s.request.Plan.History) { // the turn was started without reasoning already
			return false, f.err
		}
		s.request.Plan = without
		return true, s.startAt(ctx, s.now.place)
	},
}, {
	name: "the instructions behind Codex's own prompt",
	open: (*Session).mayAppend,
	fits: func(_ *Session, f *failed) bool { return f.instructions },
	start: func(ctx context.Context, s *Session, _ *failed) (bool, error) {
		at := s.now.place
		at.Instructions.Append = true
		return true, s.startAt(ctx, at)
	},
}, {
	name: "one call at a time",
	open: func(s *Session) bool { return s.now.parallel },
	fits: func(s *Session, f *failed) bool { return s.now.parallel && failures.RejectsRequest(f.err) },
	start: func(ctx context.Context, s *Session, f *failed) (bool, error) {
		at := s.now.place
		at.Serial = true
		s.serial = f.err
		return true, s.startAt(ctx, at)
	},
}, {
	// If the turn itself failed or was silent, the cause is the provider, and a new thread would
	// not help.
	name: "a new thread instead of a prepared one",
	open: func(s *Session) bool { return s.now.origin == Prepared },
	fits: func(s *Session, f *failed) bool {
		return s.now.origin == Prepared && !errors.Is(f.err, turn.ErrShutdown) && !errors.Is(f.err, turn.ErrIdle) && !errors.As(f.err, new(*codexrpc.TurnError))
	},
	start: startAfresh,
}, {
	name:  "HTTP instead of a WebSocket",
	fits:  func(_ *Session, f *failed) bool { return appserver.IsSocketRefused(f.err) },
	start: func(ctx context.Context, s *Session, _ *failed) (bool, error) { return true, s.startOverHTTP(ctx) },
}, {
	name:  "a wait for a failing provider",
	open:  (*Session).mayWait,
	fits:  func(s *Session, f *failed) bool { return s.mayWait() && failures.IsTransient(f.err) },
	start: func(ctx context.Context, s *Session, f *failed) (bool, error) { return s.startLater(ctx, f) },
}}

// Repeatable reports whether the request has to stay in memory, since the turn may have to be
// started again.
func (s *Session) Repeatable() bool {
	for i := range remedies {
		if open := remedies[i].open; open != nil && open(s) {
			return true
		}
	}
	return false
}

// hasReasoning reports whether the history in the request has reasoning. It may come from the
// client or from stored responses. The reasoning is encrypted: only the login that made it can use
// it.
func (s *Session) hasReasoning() bool {
	return s.chain != nil && s.request.Plan != nil && slices.ContainsFunc(s.chain.Links, func(l Link) bool { return l.Reasoned })
}

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

// mayAppend reports whether the provider may still refuse instructions in the place of Codex's own
// prompt. After a refusal, the turn is started again with the instructions appended to that prompt.
// Once the provider has accepted instructions with this model, mayAppend returns false: the request
// then need not stay in memory for such a start.
func (s *Session) mayAppend() bool {
	at := &s.now.place
	return s.opener.Instructions == InstructionsAuto && !at.Instructions.Append && !at.Acceptance.Instructions(at.Model)
}

// mayWait reports whether the turn may be started again, after a wait, because the provider fails.
func (s *Session) mayWait() bool { return s.waits < s.now.place.Process.ProviderRetries() }

// Again restarts a turn that has failed before its first output, if one of the remedies fits. It
// returns true if it has tried to start the turn; err is the error of that start, or nil. Otherwise
// it returns false and the failure of the turn, or that of another login if that login is likely to
// work sooner.
func (s *Session) Again(ctx context.Context, failure error) (started bool, err error) {
	f := s.record(failure)
	if s.request.Plan == nil {
		return false, failure // the plan is forgotten
	}
	for i := range remedies {
		r := &remedies[i]
		if !r.fits(s, &f) {
			continue
		}
		if started, err = r.start(ctx, s, &f); started {
			s.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a turn was started again", slog.String("with", r.name))
		}
		if started || !r.optional {
			return started, err
		}
	}
	return false, failure
}

// record finds out the cause of a failure, and records what the failure means for the login. Again
// calls it even if it cannot restart this turn, since the login's record also serves later
// requests.
func (s *Session) record(failure error) failed {
	f := failed{err: failure, instructions: s.instructionsRefused(failure)}
	s.recordPicture(failure)
	if loginstate.IsOfLogin(failure) {
		f.outdated = s.now.place.outdated()
		f.account = !f.outdated
	}
	if f.account {
		s.now.login.Fail(failure)
	}
	provider, rest := failures.FailedProvider(failure)
	if f.provider = provider && !f.account && !f.outdated; f.provider && !s.answered {
		s.now.login.Falter(failure, rest)
	}
	return f
}

// instructionsRefused reports whether the turn has failed because the provider refuses instructions
// in the place of Codex's own prompt. It records the refusal for later turns.
func (s *Session) instructionsRefused(failure error) bool {
	at := &s.now.place
	if s.opener.Instructions != InstructionsAuto || at.Instructions.Append || !failures.RefusesInstructions(failure) {
		return false
	}
	if at.Acceptance.InstructionsRefused(at.Model) {
		s.opener.Logger.Warn("the provider refuses instructions in the place of codex's own prompt; from now on they follow it, see the option instructions",
			"error", failure)
	}
	return true
}

func startAfresh(ctx context.Context, s *Session, _ *failed) (started bool, err error) {
	return true, s.startFresh(ctx)
}

// startFresh starts the turn on a new thread of the same process.
func (s *Session) startFresh(ctx context.Context) error {
	at, err := s.place(ctx, s.now.place.Process)
	if err != nil {
		return err
	}
	return s.startAt(ctx, at)
}

// startOverHTTP starts the turn on a new thread of the same process. On that thread, Codex asks the
// provider over HTTP instead of a WebSocket.
func (s *Session) startOverHTTP(ctx context.Context) error {
	at, err := s.place(ctx, s.now.place.Process)
	if err != nil {
		return err
	}
	at.OverHTTP = true
	return s.startAt(ctx, at)
}

// startAt starts the turn on a new thread at the place at, which is on the same process.
func (s *Session) startAt(ctx context.Context, at Place) error {
	plan := s.request.Plan
	thread, err := at.settings(plan).start(ctx, s.opener.Logger)
	if err != nil {
		return err
	}
	now := &s.now
	now.thread.Close(nil)
	return s.start(ctx, attempt{
		origin: New, place: at, thread: thread, parallel: triesParallel(at, plan), in: now.in,
		login: now.login, others: now.others, closed: now.closed,
	})
}

const (
	// firstRetry is how long startLater waits at first. Each later wait is twice as long, but never
	// longer than longestRetry, since clients also retry by themselves.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 2 * time.Second
)

// startLater waits and starts the turn again on a new thread. If the client leaves during the wait,
// startLater returns false and the failure. The new thread uses HTTP instead of a WebSocket in two
// cases: if Codex already had to fall back to HTTP, and at the last start, since no further start
// could follow if the provider refused the WebSocket.
func (s *Session) startLater(ctx context.Context, f *failed) (started bool, err error) {
	timer := time.NewTimer(min(firstRetry<<min(s.waits, 8), longestRetry))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, f.err
	}
	s.waits++
	if s.now.place.OverHTTP || s.now.thread.FellBack() || !s.mayWait() {
		return true, s.startOverHTTP(ctx)
	}
	return true, s.startFresh(ctx)
}

package conversation

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/internal/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
)

// Open starts a request's turn: on the kept thread with its history, or else on a spare one, which
// was started in advance without a history, or else on a new one. After a failure, it tries the
// remedies for a turn that could not be started.
//
// If Open fails and t is not nil, the turn has got a thread, so the model was probably asked. The
// caller must close t in any case.
func (o *Opener) Open(ctx context.Context, lease Lease, r Request) (*Turn, error) {
	if _, err := r.BeforeStart(ctx); err != nil {
		return nil, err
	}
	plan := r.Plan
	t := &Turn{
		opener: o, request: r,
		tools: plan.Tools, schema: string(plan.Turn.OutputSchema), effort: plan.Thread.Config.Effort(), model: plan.Thread.Model,
	}
	opened := false
	defer func() {
		if !opened { // there is no thread, or something has panicked
			t.closeThread(t.current.onClose)
		}
	}()
	first := opening{lease: lease, useSpare: true} // on the stack, as nearly every turn starts at once
	var err error
	if !t.startOnKept(ctx, lease) {
		err = t.startOnLeastBusy(ctx, &first)
	}
	if err != nil {
		f := turnFailure{err: err, opening: new(first)}
		for started := true; started && f.err != nil && ctx.Err() == nil; {
			started, f.err = t.tryRemedies(ctx, &f)
		}
		err = f.err
	}
	if err == nil {
		t.prepareToRun()
	}
	if opened = t.current.thread != nil; !opened {
		return nil, err
	}
	return t, err
}

// opening describes how Open starts a turn. The remedies for a turn that could not be started need it.
type opening struct {
	lease         Lease
	useSpare      bool      // a spare thread may be used
	spareSettings *settings // the settings of the spare thread that has failed; nil: none has failed
	moved         bool      // another process was tried, in place of a process that was gone
}

// startOnKept starts the turn on a kept thread that has the request's history except the newest messages.
// It returns false for a request for several answers, without such a thread, or if the turn cannot start
// there.
func (t *Turn) startOnKept(ctx context.Context, lease Lease) bool {
	plan := t.request.Plan
	if plan.Choices != 1 || len(plan.History) == 0 || t.request.Chain != nil {
		return false
	}
	var kept *keptThread
	var threads *Threads
	var link Link
	var lostBy *Threads // has dropped the thread that had the conversation; nil: no thread was dropped
	var reason Reason
	member, done, found := lease.Resume(t.model, func(m Member) bool {
		if _, avoids := t.avoidsLogin(&m); avoids && lease.Logins() > 1 {
			return false
		}
		all := m.Threads
		chain := t.historyChain(lease)
		if chain == nil {
			return false
		}
		if kept, link = all.claim(ctx, chain.Links); kept != nil {
			threads = all
		} else if r := all.takeReason(chain.Links); r != "" {
			lostBy, reason = all, r
		}
		return kept != nil
	})
	if !found {
		if lostBy != nil {
			lostBy.count(false, reason)
			t.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "the thread of a conversation is gone", slog.String("reason", string(reason)))
		}
		return false
	}
	t.request.Memory.Hold()
	kept.thread.OnInput(t.request.OnInput)
	err := kept.startOrResume(ctx, plan, link)
	threads.count(kept.isParked(), fallbackReason(err))
	if err != nil {
		t.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a conversation could not go on in its thread", slog.String("error", err.Error()))
		closeThenRelease(kept.thread, t.request.Memory, done)
		return false
	}
	next := attempt{origin: Continued, member: member, place: kept.place, thread: kept.thread, usageBefore: kept.usage, threads: threads}
	if kept.isParked() {
		next.origin = Resumed
	}
	t.current = t.withLease(next, lease, done)
	t.logStart(ctx)
	return true
}

// startOnLeastBusy starts the turn on the least busy process. If the turn should avoid the login of
// that process, startOnLeastBusy prefers a process with another login.
func (t *Turn) startOnLeastBusy(ctx context.Context, o *opening) error {
	picked, done := o.lease.Pick(t.model)
	if picked.Rests != nil {
		done()
		return picked.Rests // even the best login rests
	}
	if refusal, avoids := t.avoidsLogin(&picked); avoids && o.lease.Logins() > 1 {
		next, opened, other := t.openWithOtherLogin(ctx, o.lease, picked)
		switch {
		case opened:
			done()
			return t.start(ctx, next)
		case refusal != nil:
			done()
			return loginstate.MoreHopeful(refusal, cmp.Or(other, refusal))
		}
	}
	return t.startOn(ctx, o, picked, done)
}

// startOn starts the turn on the process of a member. It calls done if it cannot open a thread there.
func (t *Turn) startOn(ctx context.Context, o *opening, member Member, done func()) error {
	t.current = attempt{member: member}
	next, err := t.openThread(ctx, o.lease, member, o.useSpare)
	if err != nil {
		done()
		return err
	}
	if next.spareSettings == nil && next.threads != nil {
		next.spareSettings = o.spareSettings // a new spare thread replaces the one that has failed
	}
	return t.start(ctx, t.withLease(next, o.lease, done))
}

// restartOnOtherProcess starts a turn on another process that is ready, since its process does not work. If
// no other process is ready, but the connection to the first process has ended, it waits until some process
// has started, perhaps the first one. Otherwise it does not start the turn.
func restartOnOtherProcess(ctx context.Context, t *Turn, f *turnFailure) (started bool, err error) {
	o := f.opening
	o.moved = true
	picked, done := o.lease.Pick(t.model, t.current.member.Process)
	ready, ended := picked.Process.Status().State == appserver.StateReady, errors.Is(f.err, codexrpc.ErrClosed)
	if ended && !ready {
		done()
		picked, done = o.lease.Pick(t.model)
	}
	if !ended && !ready {
		done()
		return false, f.err
	}
	return true, t.startOn(ctx, o, picked, done)
}

// isGone reports whether an error says that a process does not work. A process that refuses a call works.
func isGone(err error) bool {
	_, notReady := errors.AsType[*appserver.NotReadyError](err)
	return notReady || errors.Is(err, codexrpc.ErrClosed)
}

// openThread opens a thread on member's process. If useSpare is true, it takes a spare thread (started in
// advance) with the right settings, if there is one. Otherwise it starts a new thread.
func (t *Turn) openThread(ctx context.Context, lease Lease, member Member, useSpare bool) (attempt, error) {
	place, err := t.awaitPlace(ctx, member)
	if err != nil {
		return attempt{}, err
	}
	plan := t.request.Plan
	next := attempt{origin: New, member: member, place: place, triesParallelCalls: triesParallelCalls(place, plan)}
	if plan.Choices == 1 && member.Threads != nil && !plan.Picture && !place.Reserve {
		next.threads = member.Threads
		t.historyChain(lease) // announce needs the chain, when the plan may be gone
	}
	settings := place.settings(plan)
	if useSpare && next.threads != nil {
		next.spareSettings = settings
		if next.thread = next.threads.takeSpare(settings); next.thread != nil {
			next.origin = Prepared
			return next, nil
		}
	}
	next.thread, err = settings.start(ctx, t.opener.Logger)
	return next, err
}

// triesParallelCalls reports whether the turn uses a lite model in the full form (see
// [appserver.Model]) although the provider has not accepted that form yet. The full form allows
// parallel tool calls. If the provider refuses it, the turn is started again in the lite form.
func triesParallelCalls(place Place, plan *prompt.Plan) bool {
	if !place.allowsParallelCalls(plan) {
		return false
	}
	accepted, _ := place.Instance.Acceptance().ParallelCalls(place.Model)
	return !accepted
}

// withLease adds onClose to an attempt, and what the lease says of other logins. onClose calls done.
// If the login has failed before, the turn is a trial of the login, and onClose also ends this trial.
// The process counts as in use until onClose is called, when the thread is kept or unloaded.
func (t *Turn) withLease(next attempt, lease Lease, done func()) attempt {
	t.request.Live.SetProcess(next.member.Process)
	next.hasOtherLogins, next.onClose = lease.Logins() > 1, done
	if tried := next.member.Login.Try(next.place.counted(t.model)); tried != nil {
		next.onClose = func() {
			tried()
			done()
		}
	}
	return next
}

// start puts the history into the thread of an attempt and starts the turn. It then starts a spare
// thread for a later request, if one is wanted.
func (t *Turn) start(ctx context.Context, next attempt) error {
	next.begun = time.Now()
	t.request.Memory.Hold()
	t.current = next
	if err := t.injectHistory(ctx); err != nil {
		return err
	}
	t.current.thread.OnInput(t.request.OnInput)
	if err := t.current.thread.StartTurn(ctx, t.request.Plan.Turn); err != nil {
		return err
	}
	if next.spareSettings != nil {
		next.threads.startSpare(next.spareSettings)
		t.current.spareSettings = nil
	}
	t.logStart(ctx)
	return nil
}

func (t *Turn) logStart(ctx context.Context) {
	if current := &t.current; t.opener.Logger.Enabled(ctx, slog.LevelDebug) {
		login, _ := t.Meter()
		t.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a turn was started", slog.String("thread", string(current.origin)),
			slog.String("model", current.place.Model), slog.String("login", login),
			slog.Bool("over_http", current.place.OverHTTP), slog.Any("used_before", current.usageBefore))
	}
}

// maxInjectedBytes bounds the bytes of history in one call; a larger item has a call of its own. Codex
// reads one call after another, so it can read calls of other turns between those with a long history.
const maxInjectedBytes = 1 << 20

func (t *Turn) injectHistory(ctx context.Context) error {
	_, history := t.request.Plan.WithPlacement(t.current.place.Instructions)
	for len(history) > 0 {
		n, size := 1, len(history[0])
		for n < len(history) && size+len(history[n]) <= maxInjectedBytes {
			size += len(history[n])
			n++
		}
		if err := t.current.thread.InjectItems(ctx, history[:n]); err != nil {
			return err
		}
		history = history[n:]
	}
	return nil
}

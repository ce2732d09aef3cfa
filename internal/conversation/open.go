package conversation

import (
	"context"
	"errors"
	"log/slog"
	"math"

	"github.com/caddy-codex/caddy-codex/codexrpc"
	"github.com/caddy-codex/caddy-codex/codexrpc/appserver"
	"github.com/caddy-codex/caddy-codex/internal/loginstate"
	"github.com/caddy-codex/caddy-codex/internal/prompt"
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Open starts the turn. It uses the kept thread that has the history of the request, if there is
// one. Otherwise it uses a spare thread, which was started in advance without a history. If there
// is no spare thread, or the turn cannot start on it, Open starts a new thread.
func (s *Session) Open(ctx context.Context, lease Lease) error {
	if s.goOn(ctx, lease) {
		return nil
	}
	first, err := s.pick(ctx, lease, true)
	if err != nil {
		return err
	}
	if err = s.start(ctx, first); err == nil || first.origin != Prepared || ctx.Err() != nil {
		return err
	}
	// The spare thread or its process may have ended unnoticed while the thread waited. So try a
	// new thread.
	s.now.close()
	next, err := s.pick(ctx, lease, false)
	if err != nil {
		return err
	}
	next.prepare = first.prepare
	return s.start(ctx, next)
}

// goOn starts the turn in a kept thread that has all of the history except the newest messages. It
// returns false if there is no such thread, or if the turn cannot start there.
func (s *Session) goOn(ctx context.Context, lease Lease) bool {
	plan := s.request.Plan
	if plan.Choices != 1 || len(plan.History) == 0 {
		return false
	}
	var one *kept
	var in *Threads
	var at Link
	lost := func() {}
	member, done, found := lease.Resume(func(all *Threads) (found bool) {
		chain := s.hash(lease)
		if chain == nil {
			return false
		}
		in = all
		if one, at, found = all.claim(ctx, chain.Links); found {
			return true
		}
		if note, gone := all.lost(chain.Links); gone {
			lost = note
		}
		return false
	})
	if !found {
		lost()
		return false
	}
	one.thread.OnInput(s.request.OnInput)
	err := one.goOn(ctx, plan, at)
	in.note(one.parked(), err)
	if err != nil {
		s.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a conversation could not go on in its thread", slog.String("error", err.Error()))
		one.thread.Close(done)
		return false
	}
	next := attempt{origin: Continued, place: one.place, thread: one.thread, spent: one.spent, in: in}
	if one.parked() {
		next.origin = Resumed
	}
	s.now = s.withLogin(next, lease, member.Login, done)
	return true
}

// pick opens a thread on the process that the lease picks. If that process does not work, pick
// tries another one that is ready; this is possible since the model was not asked yet. If no other
// process is ready and the first one has just ended, pick waits for its next start.
func (s *Session) pick(ctx context.Context, lease Lease, prepared bool) (attempt, error) {
	picked, done := lease.Pick()
	if picked.Rests != nil {
		done()
		return attempt{}, picked.Rests // no other is better
	}
	if s.avoidsPictures(picked.Login) && lease.Len() > 1 {
		s.now.place.Process, s.now.login = picked.Process, picked.Login
		if next, opened, _ := s.openElsewhere(ctx, lease); opened {
			done()
			return next, nil
		}
	}
	next, err := s.openThread(ctx, lease, picked, prepared)
	if errors.Is(err, turn.ErrNoPictures) {
		done()
		s.now.place.Process, s.now.login = picked.Process, picked.Login
		if next, opened, _ := s.openElsewhere(ctx, lease); opened {
			return next, nil
		}
		return attempt{}, err
	}
	if err != nil && isGone(err) && ctx.Err() == nil {
		done()
		picked, done = lease.Pick(picked.Process)
		ready, ended := picked.Process.Status().State == appserver.StateReady, errors.Is(err, codexrpc.ErrClosed)
		if ended && !ready {
			done()
			picked, done = lease.Pick()
		}
		if ended || ready {
			next, err = s.openThread(ctx, lease, picked, prepared)
		}
	}
	if err != nil {
		done()
		return attempt{}, err
	}
	return s.withLogin(next, lease, picked.Login, done), nil
}

// isGone reports whether an error means that the process does not work. If the process refuses a
// call, isGone returns false, since such a process works.
func isGone(err error) bool {
	_, notReady := errors.AsType[*appserver.NotReadyError](err)
	return notReady || errors.Is(err, codexrpc.ErrClosed)
}

// openThread opens a thread on the process of the member on. If prepared is true and there is a
// spare thread (one that was started in advance) with the right settings, openThread uses it.
// Otherwise it starts a new thread.
func (s *Session) openThread(ctx context.Context, lease Lease, on Member, prepared bool) (attempt, error) {
	at, err := s.place(ctx, on.Process)
	if err != nil {
		return attempt{}, err
	}
	plan := s.request.Plan
	next := attempt{origin: New, place: at, parallel: triesParallel(at, plan)}
	if plan.Choices == 1 && on.Threads != nil && !plan.PictureOnly {
		next.in = on.Threads
		s.hash(lease)
	}
	settings := at.settings(plan)
	if prepared && next.in != nil {
		next.prepare = settings
		if next.thread = next.in.spare(settings); next.thread != nil {
			next.origin = Prepared
			return next, nil
		}
	}
	next.thread, err = settings.start(ctx, s.opener.Logger)
	return next, err
}

// triesParallel reports whether a turn tries the full form of a lite model (see [appserver.Model]),
// which allows parallel tool calls, before the provider has accepted that form. If the provider
// refuses it, the turn is started again in the lite form.
func triesParallel(at Place, plan *prompt.Plan) bool {
	if !at.parallel(plan) {
		return false
	}
	accepted, _ := at.Acceptance.ParallelCalls(at.Model)
	return !accepted
}

// withLogin returns the attempt next with the login of its process added. The attempt must call
// done at its end; until then the process counts as in use.
func (s *Session) withLogin(next attempt, lease Lease, login *loginstate.Login, done func()) attempt {
	s.request.Live.SetProcess(next.place.Process)
	next.login, next.others, next.closed = login, lease.Len() > 1, done
	if tried := login.Try(); tried != nil {
		next.closed = func() {
			tried()
			done()
		}
	}
	return next
}

// start puts the history into the thread of an attempt and starts the turn.
func (s *Session) start(ctx context.Context, next attempt) error {
	s.withdraw()
	s.said, s.after, s.now = Answer{}, Hash{}, next
	if err := s.injectHistory(ctx); err != nil {
		return err
	}
	s.now.thread.OnInput(s.request.OnInput)
	if err := s.now.thread.StartTurn(ctx, s.request.Plan.Turn); err != nil {
		return err
	}
	if next.prepare != nil {
		next.in.prepare(next.prepare)
		s.now.prepare = nil
	}
	return nil
}

// injectedAtOnce is how many bytes of a history one call injects. A longer item has a call of its
// own. Codex reads one message after the other, so with several short calls, messages of other
// turns need not wait for the whole history.
const injectedAtOnce = 1 << 20

// injectHistory injects the history into the thread, with the reasoning that the memory has for it.
// Another release of Codex may refuse this reasoning; injectHistory then injects the history
// without it. A history with reasoning is injected by one call: if Codex refused the second of
// several calls, the thread would already have the items of the first.
func (s *Session) injectHistory(ctx context.Context) error {
	plan := s.request.Plan
	if restored := s.restore(plan); restored != nil {
		s.now.reasoned = true
		err := s.now.inject(ctx, restored, math.MaxInt)
		if _, refused := errors.AsType[*codexrpc.CallError](err); !refused {
			return err
		}
		s.forget()
	}
	return s.now.inject(ctx, plan, 1)
}

// inject injects the history of a plan into the thread, by calls of up to injectedAtOnce bytes.
// Each call has at least least items, even if these have more bytes.
func (a *attempt) inject(ctx context.Context, plan *prompt.Plan, least int) error {
	_, history := plan.Placed(a.place.Instructions)
	for len(history) > 0 {
		n, size := 1, len(history[0])
		for n < len(history) && (n < least || size+len(history[n]) <= injectedAtOnce) {
			size += len(history[n])
			n++
		}
		if err := a.thread.InjectItems(ctx, history[:n]); err != nil {
			return err
		}
		history = history[n:]
	}
	return nil
}

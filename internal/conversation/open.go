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
	"github.com/caddy-codex/caddy-codex/internal/turn"
)

// Open starts the turn. It uses the kept thread that has the history of the request, if there is
// one. Otherwise it uses a spare thread, which was started in advance without a history. If there
// is no spare thread, or the turn cannot start on it, Open starts a new thread.
func (s *Session) Open(ctx context.Context, lease Lease) error {
	if s.startOnKept(ctx, lease) {
		return nil
	}
	first, err := s.openLeastBusy(ctx, lease, true)
	if err != nil {
		return err
	}
	if err = s.start(ctx, first); err == nil || first.origin != Prepared || ctx.Err() != nil {
		return err
	}
	// The spare thread or its process may have ended unnoticed while the thread waited. So try a
	// new thread.
	s.current.close()
	next, err := s.openLeastBusy(ctx, lease, false)
	if err != nil {
		return err
	}
	next.spareSettings = first.spareSettings
	return s.start(ctx, next)
}

// startOnKept starts the turn on a kept thread that has the request's history except the newest
// messages. It returns false if there is no such thread, or if the turn cannot start there. Only
// requests for one answer can use kept threads.
func (s *Session) startOnKept(ctx context.Context, lease Lease) bool {
	plan := s.request.Plan
	if plan.Choices != 1 || len(plan.History) == 0 {
		return false
	}
	var kept *keptThread
	var threads *Threads
	var link Link
	var lostBy *Threads // dropped the thread that had the conversation; nil: none has
	var reason Reason
	member, done, found := lease.Resume(func(all *Threads) (found bool) {
		chain := s.historyChain(lease)
		if chain == nil {
			return false
		}
		threads = all
		if kept, link, found = all.claim(ctx, chain.Links); found {
			return true
		}
		if r := all.takeReason(chain.Links); r != "" {
			lostBy, reason = all, r
		}
		return false
	})
	if !found {
		if lostBy != nil {
			lostBy.countFallback(reason)
		}
		return false
	}
	s.request.Memory.Hold()
	kept.thread.OnInput(s.request.OnInput)
	err := kept.startOrResume(ctx, plan, link)
	threads.countClaim(kept.isParked(), err)
	if err != nil {
		s.opener.Logger.LogAttrs(ctx, slog.LevelDebug, "a conversation could not go on in its thread", slog.String("error", err.Error()))
		kept.thread.Close(releaseThen(s.request.Memory, done))
		return false
	}
	next := attempt{origin: Continued, place: kept.place, thread: kept.thread, usageBefore: kept.usage, threads: threads, memory: s.request.Memory}
	if kept.isParked() {
		next.origin = Resumed
	}
	s.current = s.withLogin(next, lease, member.Login, done)
	return true
}

// openLeastBusy opens a thread on the least busy process. If the turn may make pictures and the
// login of that process can make none, openLeastBusy prefers a process with another login. If the
// process does not work, openLeastBusy tries another process that is ready. If no other process is
// ready, but the first one has just ended, openLeastBusy waits until a process has started.
func (s *Session) openLeastBusy(ctx context.Context, lease Lease, useSpare bool) (attempt, error) {
	picked, done := lease.Pick()
	if picked.Rests != nil {
		done()
		return attempt{}, picked.Rests // even the best login rests
	}
	if refusal, avoids := s.avoidsLogin(picked.Login); avoids && lease.Logins() > 1 {
		s.current.place.Process, s.current.login = picked.Process, picked.Login
		next, opened, other := s.openWithOtherLogin(ctx, lease)
		switch {
		case opened:
			done()
			return next, nil
		case refusal != nil:
			done()
			return attempt{}, loginstate.MoreHopeful(refusal, cmp.Or(other, refusal))
		}
	}
	next, err := s.openThread(ctx, lease, picked, useSpare)
	if errors.Is(err, turn.ErrNoPictures) {
		done()
		s.current.place.Process, s.current.login = picked.Process, picked.Login
		if next, opened, _ := s.openWithOtherLogin(ctx, lease); opened {
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
			next, err = s.openThread(ctx, lease, picked, useSpare)
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

// openThread opens a thread on the process of member. If useSpare is true and there is a spare
// thread (one that was started in advance) with the right settings, openThread uses it. Otherwise
// it starts a new thread.
func (s *Session) openThread(ctx context.Context, lease Lease, member Member, useSpare bool) (attempt, error) {
	place, err := s.awaitPlace(ctx, member.Process)
	if err != nil {
		return attempt{}, err
	}
	plan := s.request.Plan
	next := attempt{origin: New, place: place, triesParallelCalls: triesParallelCalls(place, plan)}
	if plan.Choices == 1 && member.Threads != nil && !plan.Picture {
		next.threads = member.Threads
		s.historyChain(lease)
	}
	settings := place.settings(plan)
	if useSpare && next.threads != nil {
		next.spareSettings = settings
		if next.thread = next.threads.takeSpare(settings); next.thread != nil {
			next.origin = Prepared
			return next, nil
		}
	}
	next.thread, err = settings.start(ctx, s.opener.Logger)
	return next, err
}

// triesParallelCalls reports whether the turn uses a lite model in the full form (see
// [appserver.Model]) although the provider has not accepted that form yet. The full form allows
// parallel tool calls. If the provider refuses it, the turn is started again in the lite form.
func triesParallelCalls(place Place, plan *prompt.Plan) bool {
	if !place.allowsParallelCalls(plan) {
		return false
	}
	accepted, _ := place.Acceptance.ParallelCalls(place.Model)
	return !accepted
}

// withLogin adds the login and onClose to an attempt. onClose calls done. If the login has failed
// before, the turn is a trial of the login, and onClose also ends this trial. The process counts as
// in use until onClose is called, when the thread is kept or unloaded.
func (s *Session) withLogin(next attempt, lease Lease, login *loginstate.Login, done func()) attempt {
	s.request.Live.SetProcess(next.place.Process)
	next.login, next.hasOtherLogins, next.onClose = login, lease.Logins() > 1, done
	if tried := login.Try(); tried != nil {
		next.onClose = func() {
			tried()
			done()
		}
	}
	return next
}

// start puts the history into the thread of an attempt and starts the turn. It then starts a spare
// thread for a later request, if one is wanted.
func (s *Session) start(ctx context.Context, next attempt) error {
	s.withdrawAnnouncement()
	next.begun = time.Now()
	next.memory = s.request.Memory
	next.memory.Hold()
	s.answer, s.historyHash, s.current = Answer{}, Hash{}, next
	if err := s.injectHistory(ctx); err != nil {
		return err
	}
	s.current.thread.OnInput(s.request.OnInput)
	if err := s.current.thread.StartTurn(ctx, s.request.Plan.Turn); err != nil {
		return err
	}
	if next.spareSettings != nil {
		next.threads.startSpare(next.spareSettings)
		s.current.spareSettings = nil
	}
	return nil
}

// maxInjectedBytes bounds how many bytes of a history one call injects. An item with more bytes has
// a call of its own. Codex reads one call after the other. If several calls inject a history, Codex
// can read calls for other turns between them.
const maxInjectedBytes = 1 << 20

// injectHistory injects the history of the request into the thread.
func (s *Session) injectHistory(ctx context.Context) error {
	_, history := s.request.Plan.WithPlacement(s.current.place.Instructions)
	for len(history) > 0 {
		n, size := 1, len(history[0])
		for n < len(history) && size+len(history[n]) <= maxInjectedBytes {
			size += len(history[n])
			n++
		}
		if err := s.current.thread.InjectItems(ctx, history[:n]); err != nil {
			return err
		}
		history = history[n:]
	}
	return nil
}

package appserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

const (
	// drainLimit is how long a replaced app-server may finish its turns. After that, Process stops
	// it, and the turns that still run fail.
	drainLimit = time.Hour
	// drainGrace is the shortest time that a replaced app-server keeps running. In this time,
	// callers that already have its connection can open their threads.
	drainGrace = 5 * time.Second
	drainPoll  = 200 * time.Millisecond
	// maxDraining bounds the app-servers that drain (finish their turns after a replacement) at the
	// same time. While that many drain, Restart fails.
	maxDraining = 4
)

// Restart replaces the app-server without ending its turns. It launches a new app-server, and returns
// without waiting for the handshake. When the new app-server is ready and knows its account, it gets
// all new turns. The old one is stopped when it is idle, or after drainLimit. In StateBackoff,
// Restart starts the app-server immediately.
//
// Restart fails if there is no app-server to replace (for example while the first one is still
// starting), if a replacement is already starting, or if maxDraining app-servers are draining.
func (p *Process) Restart() error {
	if p.Status().State == StateNew {
		return &NotReadyError{State: StateNew, Reason: "it was never started"}
	}
	result := make(chan error, 1)
	select {
	case p.tasks <- func(s *supervisor) { result <- s.restart() }:
		return <-result
	case <-p.done:
		return &NotReadyError{State: StateStopped, Reason: errStopped.Error()}
	}
}

// replace launches an instance that is to replace the serving one. It fails if none can be replaced now.
func (s *supervisor) replace(reason string) error {
	status := s.Status()
	switch {
	case s.serving == nil:
		return status.notReady()
	case s.next != nil && !s.nextWaits:
		return errors.New("the codex app-server is being replaced already")
	case status.Draining >= maxDraining:
		return fmt.Errorf("%d replaced app-servers have turns that go on; the next replacement has to wait for one of them", status.Draining)
	}
	in, err := s.launch()
	if err != nil {
		s.published.setLoginFailed()
		return err
	}
	s.dropReplacement() // an earlier replacement that waits for its account has an older login or configuration
	s.next, s.replaceReason = in, reason
	s.Log().Info("replacing the codex app-server", "reason", reason, "pid", s.serving.pid(), "new_pid", in.pid())
	return nil
}

// handleReplacement handles the end of the replacement's start. The replacement takes over. If the account
// of the old instance is known, the replacement waits until its own account is known: otherwise an outage
// of the account back end would end what still works.
//
// If the start has failed, the replacement is stopped and the old instance keeps serving. If it has failed
// because nobody is signed in any more, the old instance gets no new turns, and drains.
func (s *supervisor) handleReplacement() {
	in := s.next
	switch {
	case in.err == nil && in.conn.HasPlan() && s.Status().AccountKnown:
		s.nextWaits = true
		s.learnAccountOnce(in)
	case in.err == nil:
		s.takeOver()
	case errors.Is(in.err, codexrpc.ErrNotLoggedIn):
		old := s.serving
		s.next, s.serving = nil, nil
		s.published.update(func() { s.published.draining = append(s.published.draining, old) })
		s.background.Go(func() { s.drain(old) })
		s.scheduleRetry(s.stopFailed(in, in.err))
	default:
		s.next = nil
		s.published.setLoginFailed()
		s.background.Go(func() {
			s.stopInstance(in)
			s.Log().Error("the codex app-server could not be replaced, and goes on", "reason", in.withExitDetails(in.err).Error())
			in.stderr.logStartLines(s.Log())
		})
	}
}

func (s *supervisor) dropReplacement() {
	if in := s.next; in != nil {
		s.next, s.nextWaits = nil, false
		s.published.update(func() { s.published.status.Account = "" })
		s.background.Go(func() { s.stopInstance(in) })
	}
}

func (s *supervisor) takeOver() {
	in, old := s.next, s.serving
	s.next, s.nextWaits = nil, false
	in.stderr.logStartLines(s.Log())
	s.makeServing(in)
	s.background.Go(func() { s.drain(old) })
	s.Log().Info("the codex app-server was replaced", "reason", s.replaceReason, "version", in.version, "pid", in.pid(), "old_pid", old.pid())
}

func (p *Process) drain(old *instance) {
	begin := time.Now()
	idle := p.awaitIdle(old)
	p.stopInstance(old)
	took := time.Since(begin).Round(time.Millisecond).String()
	if idle {
		p.Log().Info("the replaced codex app-server has ended", "pid", old.pid(), "after", took)
	} else {
		p.Log().Warn("the replaced codex app-server was stopped with turns on it", "pid", old.pid(), "after", took)
	}
	p.published.update(func() {
		p.published.draining = slices.DeleteFunc(p.published.draining, func(in *instance) bool { return in == old })
	})
	p.runInSupervisor(func(s *supervisor) { s.notifyObserver() })
}

// awaitIdle waits until the connection of an instance has ended or, after the drain grace, is not busy. It also
// returns at the drain limit and when the process is stopped: false if the connection is busy then.
func (p *Process) awaitIdle(old *instance) bool {
	ctx, cancel := context.WithTimeout(p.ctx, p.times.drainLimit)
	defer cancel()
	earliest := time.Now().Add(p.times.drainGrace)
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if time.Now().After(earliest) && !old.conn.Busy() {
				return true
			}
		case <-old.conn.Done():
			return true
		case <-ctx.Done():
			return !old.conn.Busy()
		}
	}
}

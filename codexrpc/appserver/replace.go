package appserver

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// drainLimit is how long an app-server that was replaced may go on with the
	// turns that it has. Then it is stopped, and they fail.
	drainLimit = time.Hour
	// drainGrace is how long it is left alone first, for callers that have its
	// connection and no thread yet.
	drainGrace = 5 * time.Second
	// drainLook is how often is looked whether its last thread is gone.
	drainLook = 200 * time.Millisecond
	// maxDraining bounds the app-servers that drain at once. With so many,
	// the next replacement has to wait.
	maxDraining = 4
)

// Restart replaces the app-server without touching its turns: a fresh one is
// started beside it, or a remote one is connected anew, and takes the new turns
// once it is ready; the old one ends with its last thread. The fork is over
// when Restart returns; Status tells the rest. One that waits for its next start
// is started at once. It fails when there is none that is ready or waits, when a
// replacement is under way, and when too many drain already.
func (p *Process) Restart() error {
	p.mu.Lock()
	status := p.status
	p.mu.Unlock()
	if status.State == StateNew {
		return &NotReadyError{State: status.State, Reason: "it was never started"}
	}
	answer := make(chan error, 1)
	select {
	case p.orders <- answer:
		return <-answer // the supervisor has it
	case <-p.done:
		return &NotReadyError{State: StateStopped, Reason: reasonStopped}
	}
}

// replace starts the instance that is to take over.
func (s *supervisor) replace(why string) error {
	status := s.Status()
	switch {
	case s.serving == nil:
		return &NotReadyError{State: status.State, Reason: status.Reason, Remedy: status.Remedy, RetryAfter: max(0, time.Until(status.RetryAt))}
	case s.next != nil:
		return errors.New("the codex app-server is being replaced already")
	case status.Draining >= maxDraining:
		return fmt.Errorf("%d replaced app-servers have turns that go on; the next replacement has to wait for one of them", status.Draining)
	}
	in, err := s.launch()
	if err != nil {
		return err
	}
	s.next, s.why = in, why
	s.log().Info("replacing the codex app-server", "reason", why, "pid", s.serving.pid(), "new_pid", in.pid())
	return nil
}

// takeOver gives new turns to the next instance and lets the old one drain. If
// the start has failed, all stays as it is.
func (s *supervisor) takeOver() {
	in, old := s.next, s.serving
	s.next = nil
	if in.err != nil {
		s.background.Go(func() {
			s.stopInstance(in)
			s.log().Error("the codex app-server could not be replaced, and goes on", "reason", in.epitaph(in.err).Error())
		})
		return
	}
	in.since = time.Now()
	s.serving = in
	s.swap(in, old)
	s.monitor(in)
	if s.Status().State == StateUnresponsive { // the old one was
		s.ready(in)
	}
	s.background.Go(func() { s.drain(old) })
	s.log().Info("the codex app-server was replaced", "reason", s.why, "version", in.version, "pid", in.pid(), "old_pid", old.pid())
	s.observe()
}

// swap publishes the new connection.
func (p *Process) swap(in, old *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.models, p.memory = in.conn, in.models, 0
	p.draining = append(p.draining, old)
	p.status.PID, p.status.Version = in.pid(), in.version
	p.status.Replacements++
	p.hasChanged()
}

// drain waits for the last thread of an instance and stops it.
func (p *Process) drain(old *instance) {
	begin := time.Now()
	finished := p.awaitIdle(old)
	if old.conn.Err() != nil {
		p.abandon(old)
	}
	p.stopInstance(old)
	took := time.Since(begin).Round(time.Millisecond).String()
	if finished {
		p.log().Info("the replaced codex app-server has ended", "pid", old.pid(), "after", took)
	} else {
		p.log().Warn("the replaced codex app-server was stopped with turns on it", "pid", old.pid(), "after", took)
	}
	p.mu.Lock()
	p.draining = slices.DeleteFunc(p.draining, func(in *instance) bool { return in == old })
	p.hasChanged()
	p.mu.Unlock()
	select {
	case p.drained <- struct{}{}:
	default: // the supervisor is about to look anyway
	}
}

// awaitIdle waits until nobody uses an instance any more. It reports false when
// somebody does and the drain limit or the process's end has come.
func (p *Process) awaitIdle(old *instance) bool {
	limit := time.NewTimer(p.drainLimit)
	defer limit.Stop()
	quiet := time.Now().Add(p.drainGrace)
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if time.Now().After(quiet) && !old.conn.Busy() {
				return true
			}
		case <-old.conn.Done():
			return true
		case <-p.stop:
			return !old.conn.Busy()
		case <-limit.C:
			return !old.conn.Busy()
		}
	}
}

package appserver

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/caddy-codex/caddy-codex/codexrpc"
)

var errStopped = errors.New("it was stopped")

// supervisor starts, replaces and stops the instances (running app-servers) of a process, in one
// goroutine. At any time, an instance starts, an instance serves, or the supervisor waits for the
// next start. While one instance serves, its replacement may be starting.
type supervisor struct {
	*Process
	serving       *instance        // takes new turns; nil: there is none
	next          *instance        // is being started: to replace serving, or to serve if no instance does; nil: there is none
	nextWaits     bool             // next has started, and waits for its account to replace serving
	replaceReason string           // why serving is replaced
	retryTimer    <-chan time.Time // fires when the next start is due; nil: none is planned
	replaceAfter  time.Time        // replaceForHealth does nothing before this time, unless surelyHelps is true
}

// run, the supervisor's goroutine, starts instances and runs tasks until the process is stopped.
func (s *supervisor) run() {
	for {
		select {
		case <-s.ctx.Done():
			s.stopAll()
			return
		case <-s.retryTimer:
			s.start(s.Status().Reason)
		case task := <-s.tasks:
			task(s)
		}
	}
}

// start launches an instance. It must be called only while no instance is starting or serving.
// reason is why the last instance ended, or empty.
func (s *supervisor) start(reason string) {
	s.retryTimer = nil
	s.published.update(func() {
		if s.published.status.State != StateNew {
			s.published.status.Restarts++
		}
	})
	s.setStatus(Status{State: StateStarting, Reason: reason})
	in, err := s.launch()
	if err != nil {
		s.scheduleRetry(err)
		return
	}
	s.published.update(func() { s.published.status.PID = in.pid() })
	s.next = in
}

// restart replaces the serving instance or, if the supervisor waits for the next start, starts one at once.
func (s *supervisor) restart() error {
	if s.retryTimer == nil {
		return s.replace("it was asked for")
	}
	s.start(s.Status().Reason)
	return nil
}

// handleStart handles the end of a start, or calls handleReplacement if an instance serves already. An
// instance that has started serves. If the start has failed, the supervisor tries again after a pause.
func (s *supervisor) handleStart(in *instance) {
	if s.serving != nil {
		s.handleReplacement()
		return
	}
	s.next = nil
	defer in.stderr.logStartLines(s.Log())
	if in.err == nil {
		s.makeServing(in)
		s.Log().Info("the codex app-server is ready", "version", in.version, "pid", in.pid())
		return
	}
	s.scheduleRetry(s.stopFailed(in, in.err))
}

// makeServing makes new turns use an instance. For the instance that served before, the caller calls drain.
func (s *supervisor) makeServing(in *instance) {
	in.servingSince = time.Now()
	if in.home != nil {
		in.settings = newProviderSettings(&in.home.config.providerConfig, in.version)
	}
	old := s.serving
	s.serving = in
	s.publish(in, old)
	in.conn.Monitor(s.times.heartbeat, func(probe codexrpc.Probe) {
		select {
		case s.tasks <- func(s *supervisor) { s.checkHealth(in, probe) }:
		case <-in.conn.Done():
		}
	})
	s.learnAccountOnce(in)
	if in.home != nil {
		s.background.Go(func() { s.renewLoginEarly(in) })
	}
}

func (s *supervisor) learnAccountOnce(in *instance) {
	if !in.learning {
		in.learning = true
		s.background.Go(func() { s.learnAccount(in) })
	}
}

// publish makes new turns use a serving instance. If old is not nil, it is published as draining.
func (p *Process) publish(in, old *instance) {
	s := &p.published
	s.update(func() {
		if old != nil {
			s.draining = append(s.draining, old)
			s.status.Replacements++
		}
		s.latest, s.memory = in, 0
		s.setStatusLocked(Status{State: StateReady, PID: in.pid(), Version: in.version})
		s.status.AccountKnown = in.accountKnown
	})
	p.notifyObserver()
}

// handleFailure handles the end of an instance's connection. A replacement that has not taken over is
// dropped, and a draining instance is left to drain.
//
// The serving instance is stopped. If it has a replacement, the replacement serves, now or at the end of
// its start. Otherwise handleFailure starts a new instance. It does so immediately if the failed instance
// has completed a turn or was ready for backoff.stableAfter. If not, the program may keep crashing, and
// handleFailure waits first.
func (s *supervisor) handleFailure(in *instance) {
	switch in {
	case s.next:
		s.Log().Error("the codex app-server that was to replace another one has ended, and that goes on", "reason", in.conn.Err().Error())
		s.dropReplacement()
		s.published.setLoginFailed()
		return
	case s.serving:
	default: // a draining instance
		return
	}
	s.serving = nil
	stable := in.conn.HasCompletedTurn() || time.Since(in.servingSince) >= s.backoff.stableAfter
	if stable {
		s.backoff.failures = 0
	}
	reason := s.stopFailed(in, in.conn.Err())
	switch {
	case s.nextWaits:
		s.Log().Error("the codex app-server ended, and is replaced by one whose account is not known yet", "reason", reason.Error())
		s.setStatus(Status{State: StateStarting, Reason: reason.Error(), PID: s.next.pid()})
		successor, failure := s.next, s.next.accountFailure
		s.next, s.nextWaits, successor.accountFailure = nil, false, nil // publishAccount sets the failure again
		s.makeServing(successor)
		if failure != nil {
			s.publishAccount(successor, failure)
		}
	case s.next != nil:
		s.Log().Error("the codex app-server ended before its replacement was ready", "reason", reason.Error())
		s.setStatus(Status{State: StateStarting, Reason: reason.Error(), PID: s.next.pid()})
	case stable:
		s.Log().Error("the codex app-server ended, and is started again", "reason", reason.Error())
		s.start(reason.Error())
	default:
		s.scheduleRetry(reason)
	}
}

// stopFailed stops an instance that has failed, and returns the reason with its details.
func (s *supervisor) stopFailed(in *instance, reason error) error {
	status := failedStatus(StateStopping, reason)
	status.PID, status.Version = in.pid(), in.version
	s.setStatus(status)
	s.stopInstance(in)
	return in.withExitDetails(reason)
}

// stopInstance ends the program of an instance whose start is over, and everything that it has started.
func (p *Process) stopInstance(in *instance) {
	timeout := p.cfg.stopTimeout
	if errors.Is(in.conn.Err(), codexrpc.ErrUnresponsive) {
		timeout = 0 // it may be suspended, and then reacts only to a kill
	}
	err := in.endChild(timeout/2, timeout/2)
	if err == nil {
		err = in.home.remove()
	}
	if err != nil {
		p.Log().Error("stopping the codex app-server", "error", err, "pid", in.pid())
	}
}

func (s *supervisor) scheduleRetry(reason error) {
	if errors.Is(reason, errStopped) {
		return // the process is stopped, so there is no next start
	}
	pause := s.backoff.nextPause()
	status := failedStatus(StateBackoff, reason)
	status.RetryAt = time.Now().Add(pause)
	s.setStatus(status)
	s.Log().Error("the codex app-server is not running", "reason", reason.Error(), "next_start_in", pause.Round(time.Millisecond).String())
	s.retryTimer = time.After(pause)
}

func (s *supervisor) stopAll() {
	var stops sync.WaitGroup
	for _, in := range []*instance{s.serving, s.next} {
		if in == nil {
			continue
		}
		if in == s.serving || s.serving == nil { // next has a status only if nothing serves
			s.setStatus(Status{State: StateStopping, Reason: errStopped.Error(), PID: in.pid()})
		}
		stops.Go(func() {
			<-in.startDone // closed soon, since p.ctx has ended
			s.stopInstance(in)
			in.stderr.logStartLines(s.Log())
		})
	}
	stops.Wait()
	s.background.Wait()
	if err := s.removeFiles(); err != nil {
		s.Log().Warn("removing the private directory of codex", "error", err)
	}
	s.setStatus(Status{State: StateStopped, Reason: errStopped.Error()})
	close(s.done)
}

// backoff computes the pauses between the starts of a program that keeps failing.
type backoff struct {
	first, longest time.Duration
	stableAfter    time.Duration // a program that was ready for this long counts as stable
	failures       int           // failures in a row
}

func newBackoff() backoff {
	return backoff{first: 100 * time.Millisecond, longest: 30 * time.Second, stableAfter: 30 * time.Second}
}

// nextPause counts a failure and returns the pause before the next start. The pause doubles with
// each failure, from b.first to b.longest. nextPause then subtracts a random part of up to a
// quarter, so that many processes do not restart at the same moment.
func (b *backoff) nextPause() time.Duration {
	pause := min(b.first<<min(b.failures, 10), b.longest)
	b.failures++
	return pause - rand.N(pause/4+1)
}
